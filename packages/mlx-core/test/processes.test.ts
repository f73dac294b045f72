import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { plainPackage, type Outcome } from './plain-package.js';

const program = plainPackage();
afterAll(() => program.remove());

const ended = (stdout: string): Outcome => ({ code: 0, signal: null, stdout, stderr: '' });

/** Some tenths of a second, on two threads. */
const longProduct = `
  const long = () => mx.tidy(() => {
    const x = mx.full([512, 512], 1 / 512);
    let product = x;
    for (let i = 0; i < 30; i++) product = mx.matmul(product, x);
    return product;
  });`;

describe('the end of a process', () => {
  test('waits for pending evaluations, then comes by itself', async () => {
    const outcome = await program.run(`
      import { mx } from 'mlx-core';
      ${longProduct}
      long().data().then((values) => console.log(values.length));
      mx.eval(long());
    `);
    expect(outcome).toEqual(ended(`${512 * 512}\n`));
  });

  test('isn’t held up by live arrays or an idle library', async () => {
    const outcome = await program.run(`
      import { mx } from 'mlx-core';
      globalThis.arrays = [mx.array([1]), mx.array([2]).add(1)];
      console.log(await globalThis.arrays[1].item());
    `);
    expect(outcome).toEqual(ended('3\n'));
  });

  test('importing alone loads nothing native', async () => {
    const outcome = await program.run(
      `import { mx } from 'mlx-core'; console.log(typeof mx.matmul);`,
      { native: '/nowhere' },
    );
    expect(outcome).toEqual(ended('function\n'));
  });

  test.each([0, 5, 20, 60, 150])(
    'process.exit() %d ms into evaluations, with live arrays',
    async (delay) => {
      const outcome = await program.run(`
        import { mx } from 'mlx-core';
        ${longProduct}
        globalThis.arrays = Array.from({ length: 6 }, long);
        for (const array of globalThis.arrays) array.data();
        setTimeout(() => process.exit(0), ${delay});
      `);
      expect(outcome).toEqual(ended(''));
    },
  );

  test('an uncaught error is reported as any other', async () => {
    const outcome = await program.run(`
      import { mx } from 'mlx-core';
      ${longProduct}
      long().data();
      setTimeout(() => { throw new Error('on purpose'); }, 10);
    `);
    expect(outcome.code).toBe(1);
    expect(outcome.stderr).toContain('on purpose');
  });

  test('a rejection that nobody handles is reported with its class', async () => {
    const outcome = await program.run(`
      import { mx } from 'mlx-core';
      const x = mx.array([1, 2]);
      x.item();
    `);
    expect(outcome.code).toBe(1);
    expect(outcome.stderr).toMatch(/ShapeError: item\(\) needs an array of one element/);
  });
});

test('an instruction set that can’t be had is told once', async () => {
  const { code, stderr } = await program.run(`
    import { mx } from 'mlx-core';
    process.env.MLX_RUNNERS_SIMD = 'avx3';
    await mx.ones([2]).data();
    await mx.ones([2]).data();
  `);
  expect(code).toBe(0);
  expect(stderr.match(/Warning: MLX_RUNNERS_SIMD is avx3, .* it is \w+\.\n/g)).toHaveLength(1);
});

describe('workers', () => {
  const worker = `
    import { mx } from 'mlx-core';
    import { isMainThread, parentPort, Worker } from 'node:worker_threads';
    import { once } from 'node:events';
    import { fileURLToPath } from 'node:url';
    const self = fileURLToPath(import.meta.url);
    ${longProduct}`;

  test('compute by themselves, beside the main thread and each other', async () => {
    const outcome = await program.run(`${worker}
      if (isMainThread) {
        const workers = [1, 2, 3].map(() => new Worker(self));
        const own = mx.add(mx.array([20]), 1).item();
        const results = await Promise.all(workers.map((each) => once(each, 'message')));
        console.log(await own, results.flat().join(' '));
      } else {
        const x = mx.array([20]).add(1).multiply(2);
        globalThis.live = [x, long()];
        parentPort.postMessage(await x.item());
      }
    `);
    expect(outcome).toEqual(ended('21 42 42 42\n'));
  });

  test('may be terminated in the middle of an evaluation', async () => {
    const outcome = await program.run(`${worker}
      if (isMainThread) {
        for (const delay of [0, 5, 30, 80]) {
          const each = new Worker(self);
          await once(each, 'message');
          await new Promise((resolve) => setTimeout(resolve, delay));
          await each.terminate();
        }
        console.log(await mx.array([1]).add(1).item());
      } else {
        globalThis.arrays = Array.from({ length: 4 }, long);
        for (const array of globalThis.arrays) array.data();
        parentPort.postMessage('busy');
      }
    `);
    expect(outcome).toEqual(ended('2\n'));
  });

  test('more of them than there are lanes', async () => {
    const outcome = await program.run(`${worker}
      if (isMainThread) {
        const workers = Array.from({ length: mx.buildInfo().lanes + 4 }, () => new Worker(self));
        const results = await Promise.all(workers.map((each) => once(each, 'message')));
        console.log(new Set(results.flat()).size, results.length - mx.buildInfo().lanes);
      } else {
        let x = mx.array([0]);
        for (let i = 0; i < 50; i++) x = x.add(1);
        parentPort.postMessage(await x.item());
      }
    `);
    expect(outcome).toEqual(ended('1 4\n'));
  });

  test('load the library one after the other, the main thread never', async () => {
    const outcome = await program.run(`${worker}
      if (isMainThread) {
        for (let i = 0; i < 3; i++) {
          const each = new Worker(self);
          // Both are awaited from the start: the exit may come together with the message.
          const [[result], [code]] = await Promise.all([once(each, 'message'), once(each, 'exit')]);
          console.log(result, code);
        }
      } else {
        globalThis.live = [mx.array([1]), long()];
        parentPort.postMessage(await mx.array([20]).add(1).multiply(2).item());
      }
    `);
    expect(outcome).toEqual(ended('42 0\n42 0\n42 0\n'));
  });
});

describe('two copies of the package in one program', () => {
  test('share the library without mixing up calls', async () => {
    const copy = plainPackage();
    try {
      const outcome = await program.run(`
        import { mx as first } from 'mlx-core';
        import { mx as second } from '${join(copy.folder, 'dist/index.js')}';
        const a = first.array([1, 2]);
        const b = second.array([10, 20]);
        console.log(Array.from(a.add(1).dataSync()), Array.from(b.sum().dataSync()));
        console.log(a.reshape([2, 1]).shape, b.shape, a.shape);
      `);
      expect(outcome).toEqual(ended('[ 2, 3 ] [ 30 ]\n[ 2, 1 ] [ 2 ] [ 2 ]\n'));
    } finally {
      copy.remove();
    }
  });
});

describe('garbage collection', () => {
  test('frees arrays outside of scopes', async () => {
    const outcome = await program.run(
      `
      import { mx } from 'mlx-core';
      const turn = () => new Promise((resolve) => setImmediate(resolve));
      mx.array([0]).dispose();
      for (let i = 0; i < 500; i++) {
        mx.array([i]).add(1);
        mx.tidy(() => [mx.array([i]).add(1), mx.array([i])]);
      }
      const most = mx.memory().arrays;
      for (let i = 0; i < 10 && mx.memory().arrays > 0; i++) { globalThis.gc(); await turn(); }
      console.log(most, mx.memory().arrays);
    `,
      { nodeArgs: ['--expose-gc'] },
    );
    expect(outcome).toEqual(ended('2000 0\n'));
  });

  test('disposing what the collector would free later is fine', async () => {
    const outcome = await program.run(
      `
      import { mx } from 'mlx-core';
      const turn = () => new Promise((resolve) => setImmediate(resolve));
      for (let i = 0; i < 500; i++) {
        const x = mx.array([i]);
        const kept = mx.tidy(() => mx.keep(x.add(1)));
        if (i % 2) x.dispose();
        if (i % 3) kept.dispose();
      }
      for (let i = 0; i < 10 && mx.memory().arrays > 0; i++) { globalThis.gc(); await turn(); }
      console.log(mx.memory().arrays, await mx.array([1]).item());
    `,
      { nodeArgs: ['--expose-gc'] },
    );
    expect(outcome).toEqual(ended('0 1\n'));
  });
});
