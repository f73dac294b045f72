import { MemoryError, mx, UsageError, type MxArray } from '@mlx-runners/mlx-core';
import { afterAll, describe, expect, test } from 'vitest';
import { expectArray, thrown } from './expectations.js';
import { plainPackage, type Outcome } from './plain-package.js';

const program = plainPackage();
afterAll(() => program.remove());

const ended = (stdout: string): Outcome => ({ code: 0, signal: null, stdout, stderr: '' });

/** What programs begin with. Resident bytes are in MB. */
const prelude = `
  import { once } from 'node:events';
  import { readFileSync } from 'node:fs';
  import { fileURLToPath } from 'node:url';
  import { isMainThread, parentPort, Worker } from 'node:worker_threads';
  import { mx } from 'mlx-core';
  const turn = () => new Promise((resolve) => setImmediate(resolve));
  const status = (field) =>
    Number(new RegExp(field + ':\\\\s*(\\\\d+) kB').exec(readFileSync('/proc/self/status', 'utf8'))[1]) / 1024;
  const peak = () => status('VmHWM');
  const resident = () => status('VmRSS');`;

describe('the limit', () => {
  const { limit } = mx.memory();
  afterAll(() => mx.setMemoryLimit(limit));

  /** With room for some megabytes more than is in use now. */
  function withRoom<T>(megabytes: number, use: () => T): T {
    mx.setMemoryLimit(mx.memory().active + 2048 * mx.memory().arrays + megabytes * 1e6);
    return use();
  }
  const megabytes = (count: number): MxArray => mx.full([count * 250_000], 1);

  test('is a share of the memory that there is, and can be set', () => {
    expect(limit).toBeGreaterThan(2 ** 27);
    mx.setMemoryLimit(12_345_678);
    expect(mx.memory().limit).toBe(12_345_678);
  });

  test.each([0, -1, 1.5, NaN, Infinity, '1' as unknown as number])('%s is refused', (bytes) => {
    expect(() => mx.setMemoryLimit(bytes)).toThrow(UsageError);
  });

  test.each<[string, () => unknown]>([
    ['copied from JavaScript', () => mx.array(new Uint8Array(12e6))],
    ['that alone is too large', () => mx.zeros([2 ** 30, 2 ** 30])],
    ['computed', () => mx.evalSync(megabytes(6), megabytes(6))],
    ['read', () => megabytes(9).add(1).dataSync()],
    ['on the way to a small result', () => megabytes(9).sum().itemSync()],
    [
      'seen through views',
      () => mx.evalSync(megabytes(6).reshape([-1, 10]), megabytes(6).transpose()),
    ],
  ])('arrays %s are a MemoryError beyond it', (what, make) => {
    mx.tidy(() => {
      // An array of 4 MB shows that what is there already counts.
      withRoom(12, () => {
        using there = mx.array(new Uint8Array(4e6));
        const error = thrown(make);
        expect(error, what).toBeInstanceOf(MemoryError);
        expect(error.message).toMatch(/MB|GB/);
        expect(error.message).toContain('12');
        expect(error.message).toContain('mx.setMemoryLimit()');
        expectArray(there.sum(), 0);
      });
    });
  });

  test('refuses nothing that fits', () => {
    mx.tidy(() => {
      withRoom(20, () => {
        const x = megabytes(9);
        mx.evalSync(x);
        mx.evalSync(x.add(1)); // twice
        expect(x.reshape([-1, 10]).sum(0).dataSync()[0]).toBe(225_000); // views are for free
        mx.evalSync(mx.broadcastTo(mx.array([1]), [2 ** 22]));
      });
    });
  });

  test('lets an op write over an operand that nothing else needs', () => {
    withRoom(15, () => {
      let x = megabytes(9);
      mx.evalSync(x);
      for (let i = 0; i < 3; i++) {
        const operand = x;
        const next = mx.tidy(() => operand.reshape([-1, 10]).add(1));
        x.dispose();
        mx.evalSync(next);
        x = next;
      }
      expect(mx.tidy(() => x.slice([0, 0], [1, 1]).itemSync())).toBe(4);
      x.dispose();
    });
  });

  test('rejects what is awaited', async () => {
    await withRoom(10, async () => {
      using large = megabytes(9);
      await mx.eval(large);
      using more = large.add(1);
      await expect(mx.eval(more)).rejects.toThrow(MemoryError);
      await expect(more.data()).rejects.toThrow(/^data\(\): this takes 9 MB/);
      using sum = large.sum();
      expect(await sum.item()).toBe(2_250_000);
    });
  });
});

describe.skipIf(process.platform !== 'linux')('garbage without any scope', () => {
  const arrays = {
    'of 16 MB': [2 ** 22, 256, 500],
    // As many small ones would take 400 MB if none were freed.
    'of 4 KB': [2 ** 10, 100_000, 300],
  } as const;
  const uses = {
    'computed and read': 'await y.data();',
    computed: 'await mx.eval(y);',
    'computed in place of the event loop': 'mx.evalSync(y); if (i % every === 0) await turn();',
  };
  const cases = Object.keys(arrays).flatMap((size) =>
    Object.keys(uses).map((use) => [size, use] as [keyof typeof arrays, keyof typeof uses]),
  );

  test.each(cases)('%s, %s, stays bounded', async (size, use) => {
    const [elements, count, most] = arrays[size];
    const outcome = await program.run(`${prelude}
      const a = mx.full([${elements}], 1.5);
      const b = mx.full([${elements}], 2);
      const every = Math.max(1, Math.floor(${2 ** 24} / ${4 * elements} / 4));
      for (let i = 0; i < ${count}; i++) {
        const y = mx.add(mx.multiply(a, a), b);
        ${uses[use]}
      }
      console.log(peak());
    `);
    expect({ ...outcome, stdout: '' }).toEqual(ended(''));
    expect(Number(outcome.stdout)).toBeGreaterThan(30);
    expect(Number(outcome.stdout)).toBeLessThan(most);
  });

  test('copied from JavaScript, stays bounded', async () => {
    const outcome = await program.run(`${prelude}
      const megabyte = new Uint8Array(2 ** 20).fill(1);
      for (let i = 0; i < 4096; i++) {
        mx.array(megabyte);
        if (i % 16 === 0) await turn();
      }
      console.log(peak() < 500);
    `);
    expect(outcome).toEqual(ended('true\n'));
  });

  test.each([
    ['large', 'mx.evalSync(mx.add(large, 1));'],
    ['small', 'mx.evalSync(mx.add(small, 1));'],
    ['never computed', 'mx.add(small, 1);'],
    ['copied', 'mx.array(bytes);'],
  ])('%s, in a synchronous loop, ends in a MemoryError that passes', async (_, make) => {
    const outcome = await program.run(`${prelude}
      mx.setMemoryLimit(300e6);
      const large = mx.full([2 ** 20], 1);
      const small = mx.full([2 ** 10], 1);
      const bytes = new Uint8Array(2 ** 20);
      mx.evalSync(large, small);
      const loop = () => { for (let i = 0; i < 1e7; i++) { ${make} } };
      try { loop(); } catch (error) { console.log(error.name, /tidy\\(\\).*dispose\\(\\).*event loop/.test(error.message)); }
      for (let i = 0; i < 10; i++) await turn();
      console.log(await mx.add(large, 1).slice([0], [1]).item(), peak() < 450);
    `);
    expect(outcome).toEqual(ended('MemoryError true\n2 true\n'));
  });

  test('is collected before what is awaited fails', async () => {
    const outcome = await program.run(`${prelude}
      mx.setMemoryLimit(100e6);
      const a = mx.full([2 ** 22], 1);
      for (let i = 0; i < 64; i++) await mx.eval(mx.add(a, i));
      for (let i = 0; i < 64; i++) await mx.add(a, i).data();
      console.log(mx.memory().peak <= 117e6);
    `);
    expect(outcome).toEqual(ended('true\n'));
  });
});

test('a small address space gives errors as well', async (context) => {
  if (process.platform !== 'linux') context.skip('ulimit -v is for Linux');
  const outcome = await program.run(
    `${prelude}
      const refused = [];
      for (const make of [
        () => mx.evalSync(mx.full([2 ** 29], 1)),
        () => mx.tidy(() => mx.full([2 ** 29], 1).sum().itemSync()),
      ]) {
        try { make(); } catch (error) { refused.push(error.name, /ulimit -v/.test(error.message)); }
      }
      console.log(refused.join(), mx.array([1]).add(1).itemSync());
    `,
    { shell: 'ulimit -v 3000000' },
  );
  expect(outcome).toEqual(ended('MemoryError,true,MemoryError,true 2\n'));
});

describe('what stays', () => {
  test('decoding steps with a growing cache keep the number of arrays and the bytes', async () => {
    const width = 64;
    const weights = mx.tidy(() => {
      const key = mx.randomKey(1);
      return Array.from({ length: 4 }, () => mx.randomNormal(key, [width, width]).multiply(0.1));
    });
    const [q, k, v, out] = weights;
    let cache = [mx.zeros([1, 1, 1, width]), mx.zeros([1, 1, 1, width])];
    let x = mx.ones([1, 1, 1, width]);
    mx.evalSync(x, ...cache, ...weights);
    const { arrays, active } = mx.memory();
    const seen = new Set<number>();
    const steps = 200;
    for (let step = 0; step < steps; step++) {
      const next = mx.tidy(() => {
        const keys = mx.concatenate([cache[0], x.matmul(k)], 2);
        const values = mx.concatenate([cache[1], x.matmul(v)], 2);
        const attended = mx.scaledDotProductAttention(x.matmul(q), keys, values, 0.125);
        return { x: mx.layerNorm(x.add(attended.matmul(out))), cache: [keys, values] };
      });
      await mx.eval(next.x, ...next.cache);
      for (const old of [x, ...cache]) old.dispose();
      ({ x, cache } = next);
      seen.add(mx.memory().arrays);
    }
    expect([...seen]).toEqual([arrays]);
    expect(cache[0].shape).toEqual([1, 1, steps + 1, width]);
    // The caches, and not their earlier versions.
    expect(mx.memory().active - active).toBeLessThan(4 * 2 * steps * width * 4);
    for (const each of [x, ...cache, ...weights]) each.dispose();
  });

  test.skipIf(process.platform !== 'linux')('ten workers come and go without a trace', async () => {
    const outcome = await program.run(`${prelude}
      const self = fileURLToPath(import.meta.url);
      const work = async () => {
        const parts = Array.from({ length: 50 }, (_, i) => mx.full([2 ** 18], i).add(1));
        await mx.eval(...parts);
        return mx.tidy(() => mx.stack(parts).max().itemSync());
      };
      if (isMainThread) {
        const sums = [];
        const run = async () => {
          const each = new Worker(self);
          const [[sum]] = await Promise.all([once(each, 'message'), once(each, 'exit')]);
          sums.push(sum);
        };
        await run();
        const before = resident();
        for (let i = 0; i < 10; i++) await run();
        console.log(new Set(sums).size, sums[0], resident() - before < 60, mx.memory().active);
      } else {
        parentPort.postMessage(await work());
      }
    `);
    expect(outcome).toEqual(ended('1 50 true 0\n'));
  });

  test.skipIf(process.platform !== 'linux')('a gigabyte of samples passes through', async () => {
    const outcome = await program.run(`${prelude}
      const samples = new Uint8Array(2 ** 20).fill(63);
      let most = 0;
      for (let i = 0; i < 1024; i++) {
        const audio = mx.fromBytes(samples, [2 ** 18], 'float32');
        const values = await audio.multiply(2).data();
        if (values.length !== 2 ** 18) throw new Error('cut off');
        most = Math.max(most, process.memoryUsage().arrayBuffers / 2 ** 20);
      }
      console.log(most < 200, peak() < 400);
    `);
    expect(outcome).toEqual(ended('true true\n'));
  });
});
