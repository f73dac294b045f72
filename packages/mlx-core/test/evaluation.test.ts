import { mx } from '@mlx-runners/mlx-core';
import { describe, expect, test } from 'vitest';
import { expectArray } from './expectations.js';

describe('off the event loop', () => {
  test('timers run while a product is computed', async () => {
    const size = 512;
    const chain = mx.tidy(() => {
      const x = mx.full([size, size], 1 / size);
      let product = x;
      for (let i = 0; i < 40; i++) product = mx.matmul(product, x);
      return product;
    });
    let ticks = 0;
    const timer = setInterval(() => (ticks += 1), 1);
    const values = await chain.data();
    clearInterval(timer);
    chain.dispose();
    expect(values[0]).toBeCloseTo(1 / size, 8);
    // dataSync() in its place gives 0.
    expect(ticks).toBeGreaterThan(1);
  });

  test('many evaluations at once give each its own values', async () => {
    const seeds = Array.from({ length: 200 }, (_, i) => i);
    const results = await Promise.all(
      seeds.map(async (seed) => {
        const x = mx.tidy(() => mx.full([50], seed).multiply(2).add(mx.arange(0, 50)));
        if (seed % 3 === 0) await mx.eval(x);
        const values = await x.data();
        x.dispose();
        return values;
      }),
    );
    for (const seed of seeds) {
      expect(Array.from(results[seed], Number)).toEqual(
        Array.from({ length: 50 }, (_, i) => 2 * seed + i),
      );
    }
  });

  test('evaluations that share what isn’t computed yet', async () => {
    const shared = mx.tidy(() => mx.matmul(mx.ones([128, 128]), mx.ones([128, 128])));
    const sums = Array.from({ length: 50 }, (_, i) => mx.tidy(() => shared.add(i).max()));
    expect(await Promise.all(sums.map((sum) => sum.item()))).toEqual(sums.map((_, i) => 128 + i));
    [shared, ...sums].forEach((x) => x.dispose());
  });

  test('an array may be disposed, and others made, while it is evaluated', async () => {
    const x = mx.tidy(() => mx.matmul(mx.ones([256, 256]), mx.ones([256, 256])));
    const values = x.data();
    x.dispose();
    using y = mx.array([1]);
    using z = y.add(1);
    expect((await values)[0]).toBe(256);
    expectArray(z, [2]);
  });

  test('eval computes several arrays, and none', async () => {
    using x = mx.array([1]);
    using y = mx.add(x, 1);
    await mx.eval(x, y);
    await mx.eval();
    mx.evalSync();
    mx.evalSync(x, y);
    expectArray(y, [2]);
  });

  test('data() twice at once, and of an array of another dtype', async () => {
    using x = mx.array([1, 2], undefined, 'bfloat16');
    const [a, b, c] = await Promise.all([x.data(), x.data(), x.item().catch(String)]);
    expect([a, b]).toEqual([Float32Array.of(1, 2), Float32Array.of(1, 2)]);
    expect(c).toMatch(/ShapeError/);
  });
});

describe('memory', () => {
  test('counts bytes, their peak, and arrays', () => {
    mx.clearCache();
    const before = mx.memory();
    const bytes = 2 ** 22;
    const x = mx.array(new Uint8Array(bytes));
    const during = mx.memory();
    expect(during.active - before.active).toBeGreaterThanOrEqual(bytes);
    expect(during.peak).toBeGreaterThanOrEqual(during.active);
    expect(during.arrays).toBe(before.arrays + 1);
    x.dispose();
    const after = mx.memory();
    expect(after.arrays).toBe(before.arrays);
    expect(after.active).toBeLessThan(during.active);
    mx.resetPeakMemory();
    expect(mx.memory().peak).toBeLessThan(during.peak);
    mx.clearCache();
    expect(mx.memory().cache).toBe(0);
  });
});

describe('settings', () => {
  test('buildInfo says what is loaded', () => {
    const info = mx.buildInfo();
    expect(info.mlx).toMatch(/^\d+\.\d+\.\d+$/);
    expect(info.simd).toMatch(/^(baseline|avx2(vnni)?|avx512(vnni)?|neon(dotprod)?)$/);
    expect(info.blas).not.toBe('');
    expect(info.threads).toBeGreaterThan(0);
    expect(info.lanes).toBeGreaterThan(0);
    expect(mx.device()).toBe(info.gpu ? 'gpu' : 'cpu');
  });

  test('setThreads takes effect, and results stay right', () => {
    const { threads } = mx.buildInfo();
    for (const count of [1, 3, threads]) {
      mx.setThreads(count);
      expect(mx.buildInfo().threads).toBe(count);
      mx.tidy(() => expectArray(mx.matmul(mx.ones([70, 70]), mx.ones([70, 1])).max(), 70));
    }
  });
});
