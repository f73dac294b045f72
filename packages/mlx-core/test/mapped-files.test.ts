import {
  readFileSync,
  mkdtempSync,
  openSync,
  closeSync,
  rmSync,
  truncateSync,
  utimesSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CheckpointError, DisposedError, mx, type Dtype } from '@mlx-runners/mlx-core';
import { afterAll, afterEach, describe, expect, test } from 'vitest';
import { expectArray, thrown } from './expectations.js';
import { plainPackage, type Outcome } from './plain-package.js';

const folder = mkdtempSync(join(tmpdir(), 'mapped-'));
const path = join(folder, 'file');
const isLinux = process.platform === 'linux';
const program = plainPackage();
afterEach(async () => {
  rmSync(path, { force: true });
  // No test leaves a file mapped. MLX's threads may let go of their operands a moment after the results are there.
  await expect.poll(() => mx.memory().mapped).toBe(0);
});
afterAll(() => {
  program.remove();
  rmSync(folder, { recursive: true });
});

const ended = (stdout: string): Outcome => ({ code: 0, signal: null, stdout, stderr: '' });

/** For programs: how often the system says that this process has a file mapped, and waiting until it has not. */
const mapsOf = `
  const unmapped = async (path) => {
    for (let i = 0; i < 500 && mapsOf(path) > 0; i++) await new Promise((next) => setTimeout(next, 10));
    return mapsOf(path) === 0;
  };
  const mapsOf = (path) =>
    readFileSync('/proc/self/maps', 'utf8').split('\\n').filter((line) => line.includes(path)).length;`;

describe('arrays of a mapped file', () => {
  test('lie in the file: they take no memory of their own', () => {
    writeFileSync(path, new Uint8Array(2 ** 20).fill(7));
    const { active } = mx.memory();
    using file = mx.mapFile(path);
    using x = file.array(0, [2 ** 20], 'uint8');
    expect(mx.memory().active - active).toBeLessThan(1000);
    expect(mx.memory().mapped).toBe(2 ** 20);
    expect(x.dataSync()).toEqual(new Uint8Array(2 ** 20).fill(7));
  });

  test('of any dtype, over the same bytes', () => {
    const bytes = Uint8Array.from({ length: 64 }, (_, i) => i);
    writeFileSync(path, bytes);
    const views: [Dtype, (bytes: ArrayBuffer) => ArrayLike<number | bigint>][] = [
      ['uint8', (buffer) => new Uint8Array(buffer)],
      ['int16', (buffer) => new Int16Array(buffer)],
      ['uint32', (buffer) => new Uint32Array(buffer)],
      ['float32', (buffer) => new Float32Array(buffer)],
      ['float64', (buffer) => new Float64Array(buffer)],
      ['uint64', (buffer) => new BigUint64Array(buffer)],
    ];
    using file = mx.mapFile(path);
    mx.tidy(() => {
      for (let offset = 0; offset < 64; offset++) {
        const [dtype, view] = views[offset % views.length];
        const count = Math.floor((64 - offset) / 8);
        const x = file.array(offset, [count, 1], dtype);
        const { length } = view(new ArrayBuffer(8));
        const expected = view(bytes.slice(offset, offset + (8 / length) * count).buffer);
        expect(x.dataSync()).toEqual(expected);
      }
    });
  });

  test('up to the last byte, and empty ones at the end', () => {
    writeFileSync(path, Buffer.concat([Buffer.alloc(4095), Buffer.from([1, 2])]));
    using file = mx.mapFile(path);
    mx.tidy(() => {
      expectArray(file.array(4095, [2], 'uint8'), [1, 2]);
      expectArray(file.array(4097, [0, 3], 'float32').reshape([3, 0]), [[], [], []]);
      expectArray(file.array(0, [2, 0], 'int64').add(1), [[], []]);
    });
  });

  test('of an empty file are empty', () => {
    writeFileSync(path, '');
    using file = mx.mapFile(path);
    using x = file.array(0, [0], 'float32');
    expectArray(x, []);
    expect(() => file.array(0, [1], 'uint8')).toThrow(CheckpointError);
  });

  test('beyond 2³¹ and 2³² bytes', () => {
    // A file of holes: it takes 4 KB.
    const file = openSync(path, 'w');
    const end = 2 ** 32 + 2 ** 20;
    for (const at of [2 ** 31 + 1, end - 4]) writeSync(file, Float32Array.of(at), 0, 4, at);
    closeSync(file);
    using mapped = mx.mapFile(path);
    mx.tidy(() => {
      expectArray(mapped.array(2 ** 31 + 1, [1], 'float32'), [2 ** 31]);
      expectArray(mapped.array(end - 8, [2], 'float32'), [0, Math.fround(end - 4)]);
      const whole = mapped.array(2 ** 31 - 64, [2 ** 15, 2 ** 16], 'uint8');
      expect(whole.slice([0, 60], [1, 70]).dataSync()).toEqual(new Uint8Array(10).with(8, 0x4f));
    });
  });

  test('are never written to, though nothing else refers to them', () => {
    writeFileSync(path, new Uint8Array(Float32Array.from({ length: 4096 }, () => 1).buffer));
    const results = mx.tidy(() => {
      using file = mx.mapFile(path);
      const take = () => file.array(0, [4096], 'float32');
      // MLX computes these in place of their operand when it may.
      return [
        take().add(1),
        take().exp(),
        mx.softmax(take(), 0),
        mx.gelu(take()),
        take().reshape([64, 64]).transpose().contiguous().negative(),
        mx.putAlongAxis(take(), mx.array([0], undefined, 'int32'), mx.array([5]), 0),
      ];
    });
    expect(results.map((x) => x.dataSync()[0])).toEqual([
      2,
      Math.fround(Math.E),
      1 / 4096,
      0.8413447141647339,
      -1,
      5,
    ]);
    for (const x of results) x.dispose();
    expect(
      new Float32Array(new Uint8Array(readFileSync(path)).buffer).every((value) => value === 1),
    ).toBe(true);
  });
});

describe('a file is mapped', () => {
  const maps = (): number =>
    readFileSync('/proc/self/maps', 'utf8')
      .split('\n')
      .filter((line) => line.includes(folder)).length;

  test.skipIf(!isLinux)('once, however often it is asked for', () => {
    writeFileSync(path, 'abcd');
    using first = mx.mapFile(path);
    using second = mx.mapFile(path);
    using x = first.array(0, [1], 'uint8');
    using y = second.array(1, [1], 'uint8');
    expect([maps(), mx.memory().mapped]).toEqual([1, 4]);
    expectArray(mx.stack([x, y]), [[97], [98]]);
  });

  test.skipIf(!isLinux)('until its last array is dropped', async () => {
    writeFileSync(path, 'abcd');
    const file = mx.mapFile(path);
    const x = file.array(0, [4], 'uint8');
    file.dispose();
    file.dispose();
    expect(() => file.array(0, [4], 'uint8')).toThrow(DisposedError);
    const view = x.slice([1], [3]);
    mx.evalSync(view);
    x.dispose();
    expect(maps()).toBe(1);
    expectArray(view, [98, 99]);
    view.dispose();
    await expect.poll(maps).toBe(0);
  });

  test.skipIf(!isLinux)('page by page: those of a dropped tensor are given back', async () => {
    const pages = (): number => {
      const [, ofFile] = readFileSync('/proc/self/smaps', 'utf8').split(path);
      return Number(/Rss:\s*(\d+) kB/.exec(ofFile)![1]);
    };
    writeFileSync(path, new Uint8Array(2 ** 21).fill(3));
    using file = mx.mapFile(path);
    const x = file.array(0, [2 ** 20], 'uint8');
    using y = file.array(2 ** 20, [2 ** 20], 'uint8');
    using overlapping = file.array(2 ** 19, [2 ** 20], 'uint8');
    expect([x.max(), y.max()].map((most) => most.itemSync())).toEqual([3, 3]);
    expect(pages()).toBe(2048);
    x.dispose();
    // Or fewer: a busy system takes pages back as well.
    await expect.poll(pages).toBeLessThanOrEqual(1024);
    expect(overlapping.min().itemSync()).toBe(3);
  });

  test('anew when it was replaced or written to', () => {
    const take = (): number[] => {
      using file = mx.mapFile(path);
      kept.push(file.array(0, [4], 'uint8'));
      return Array.from(kept.at(-1)!.dataSync(), Number);
    };
    const kept: ReturnType<ReturnType<typeof mx.mapFile>['array']>[] = [];
    writeFileSync(path, 'abcd');
    expect(take()).toEqual([97, 98, 99, 100]);
    rmSync(path);
    writeFileSync(path, 'efgh');
    expect(take()).toEqual([101, 102, 103, 104]);
    utimesSync(path, 1, 1);
    take();
    expect(mx.memory().mapped).toBe(12);
    truncateSync(path, 5);
    take();
    expect(mx.memory().mapped).toBe(17);
    expectArray(kept[0], [97, 98, 99, 100]);
    for (const x of kept) x.dispose();
  });
});

test.each([
  ['a folder', folder, /is a directory/i],
  ['what isn’t there', join(folder, 'none'), /no such file/i],
  ['a device', '/dev/null', /not a file/],
])('%s is a CheckpointError that names it', (_, name, message) => {
  const error = thrown(() => mx.mapFile(name));
  expect(error).toBeInstanceOf(CheckpointError);
  expect(error.message).toContain(name);
  expect(error.message).toMatch(message);
});

describe.skipIf(!isLinux)('in a process of its own', () => {
  const big = join(folder, 'big.safetensors');
  const megabytes = 200;
  afterAll(() => rmSync(big, { force: true }));

  test('a large file is loaded without taking memory', async () => {
    using x = mx.full([2 ** 18], 3, 'float32');
    mx.saveSafetensors(
      big,
      Object.fromEntries(Array.from({ length: megabytes }, (_, i) => [`x${i}`, x])),
    );
    const outcome = await program.run(`
      import { readFileSync } from 'node:fs';
      import { mx } from 'mlx-core';
      const anonymous = () =>
        Number(/Anonymous:\\s*(\\d+) kB/.exec(readFileSync('/proc/self/smaps_rollup', 'utf8'))[1]) / 1024;
      mx.array([1]).dispose();
      const before = anonymous();
      const { tensors } = mx.loadSafetensors('${big}');
      let sum = 0;
      for (const x of tensors.values()) sum += x.slice([7], [8]).itemSync();
      const { active, mapped } = mx.memory();
      console.log(tensors.size, sum, Math.round(mapped / 2 ** 20), active < 2 ** 20, anonymous() - before < 20);
    `);
    expect(outcome).toEqual(ended(`${megabytes} ${3 * megabytes} ${megabytes} true true\n`));
  });

  test('workers share one mapping', async () => {
    writeFileSync(path, new Uint8Array(Float32Array.from({ length: 1000 }, () => 2).buffer));
    const outcome = await program.run(
      `
      import { once } from 'node:events';
      import { readFileSync } from 'node:fs';
      import { fileURLToPath } from 'node:url';
      import { isMainThread, parentPort, Worker } from 'node:worker_threads';
      import { mx } from 'mlx-core';
      ${mapsOf}
      const take = () => {
        using file = mx.mapFile('${path}');
        return file.array(0, [1000], 'float32');
      };
      const self = fileURLToPath(import.meta.url);
      if (isMainThread) {
        const workers = [1, 2].map(() => new Worker(self));
        const sums = await Promise.all(workers.map((each) => once(each, 'message')));
        const own = take();
        console.log(sums.flat().join(), await own.sum().item(), mapsOf('${path}'), mx.memory().mapped);
        own.dispose();
        await Promise.all(workers.map((each) => each.terminate()));
        console.log(await unmapped('${path}'), mx.memory().mapped);
      } else {
        globalThis.x = take();
        parentPort.postMessage(await x.sum().item());
        parentPort.on('message', () => {});
      }
    `.replace('using file =', 'const file ='),
    );
    expect(outcome).toEqual(ended('2000,2000 2000 1 4000\ntrue 0\n'));
  });

  test('loading a model again and again leaves nothing mapped', async () => {
    mx.tidy(() => mx.saveSafetensors(path, { a: mx.ones([1000]), b: mx.ones([1000], 'float16') }));
    const outcome = await program.run(
      `
      import { readFileSync } from 'node:fs';
      import { mx } from 'mlx-core';
      ${mapsOf}
      const turn = () => new Promise((resolve) => setImmediate(resolve));
      for (let i = 0; i < 20; i++) {
        const { tensors } = mx.loadSafetensors('${path}');
        const widened = tensors.get('b').astype('float32');
        await mx.eval(widened);
        for (const x of [...tensors.values(), widened]) x.dispose();
        if (!(await unmapped('${path}'))) throw new Error('still mapped');
      }
      // Without dispose() the collector unmaps.
      for (let i = 0; i < 20; i++) mx.loadSafetensors('${path}');
      for (let i = 0; i < 10 && mx.memory().arrays > 0; i++) { globalThis.gc(); await turn(); }
      console.log(await unmapped('${path}'), mx.memory().mapped, mx.memory().arrays);
    `,
      { nodeArgs: ['--expose-gc'] },
    );
    expect(outcome).toEqual(ended('true 0 0\n'));
  });
});
