import { cpSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { mx } from '@mlx-runners/mlx-core';
import { afterAll, expect, test } from 'vitest';
import { installedPackages } from './installed.js';
import { cachedAttention, exported, normal, numbers } from './models.js';

const installed = installedPackages();
afterAll(() => installed.remove());

const { method, parameters } = cachedAttention();

/** What the model gives for a prompt of 3 and a step, eagerly. */
async function eagerly(seed: number): Promise<number[]> {
  const states = { keys: mx.zeros([1, 2, 16, 4]), values: mx.zeros([1, 2, 16, 4]) };
  const x = normal(seed, [1, 4, 8]);
  method.run({ x: x.slice([0, 0, 0], [1, 3, 8]) }, { T: 3, past: 0 }, states);
  const last = method.run({ x: x.slice([0, 3, 0], [1, 4, 8]) }, { T: 1, past: 3 }, states);
  return numbers(last.y);
}

const start = `
  import { mx } from '@mlx-runners/mlx-core';
  import { loadExport } from '@mlx-runners/program';
  const normal = (seed, shape) => mx.randomNormal(mx.randomKey(seed), shape);
  async function predict(session, seed) {
    const x = normal(seed, [1, 4, 8]);
    await session.run('step', { x: x.slice([0, 0, 0], [1, 3, 8]), past: 0 });
    const { outputs } = await session.run('step', { x: x.slice([0, 3, 0], [1, 4, 8]), past: 3 });
    return Array.from(await outputs.y.data());
  }`;

test('an export runs where only mlx-core and program are installed, also when it was moved', async () => {
  const source = await exported({ step: method }, parameters);
  const folder = join(installed.folder, 'moved');
  cpSync(source, folder, { recursive: true });
  rmSync(source, { recursive: true });
  const printed = await installed.run(`${start}
    const session = loadExport(${JSON.stringify(folder)}).session();
    console.log(JSON.stringify(await predict(session, 5)));
  `);
  expect(JSON.parse(printed)).toEqual(await eagerly(5));
});

test('50 workers × 100 predictions are all right, some at once', async () => {
  const folder = await exported({ step: method }, parameters);
  const expected = await Promise.all([0, 1, 2, 3].map(eagerly));
  const printed = await installed.run(`${start}
    import { once } from 'node:events';
    import { fileURLToPath } from 'node:url';
    import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
    if (isMainThread) {
      const self = fileURLToPath(import.meta.url);
      const workers = Array.from({ length: 50 }, (_, i) => new Worker(self, { workerData: i }));
      const counts = await Promise.all(workers.map(async (each) => (await once(each, 'message'))[0]));
      const sum = (key) => counts.reduce((total, count) => total + count[key], 0);
      const { peak } = mx.evaluations();
      console.log(JSON.stringify({ right: sum('right'), wrong: sum('wrong'), atOnce: peak > 1 }));
    } else {
      const expected = ${JSON.stringify(expected)};
      const session = loadExport(${JSON.stringify(folder)}).session();
      const count = { right: 0, wrong: 0 };
      for (let i = 0; i < 100; i++) {
        const seed = (workerData + i) % 4;
        const values = await predict(session, seed);
        count[JSON.stringify(values) === JSON.stringify(expected[seed]) ? 'right' : 'wrong'] += 1;
      }
      parentPort.postMessage(count);
    }
  `);
  expect(JSON.parse(printed)).toEqual({ right: 5000, wrong: 0, atOnce: true });
});
