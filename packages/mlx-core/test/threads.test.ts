import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { plainPackage, type Outcome } from './plain-package.js';

const program = plainPackage();
afterAll(() => program.remove());

const ended = (stdout: string): Outcome => ({ code: 0, signal: null, stdout, stderr: '' });

const start = `
  import { once } from 'node:events';
  import { readFileSync, rmSync } from 'node:fs';
  import { fileURLToPath } from 'node:url';
  import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
  import { mx } from 'mlx-core';
  const self = fileURLToPath(import.meta.url);`;

describe('50 workers × 100 evaluations', () => {
  test('are all right, some at once, on weights that are in memory once', async () => {
    const path = join(program.folder, 'weights.safetensors');
    const outcome = await program.run(`${start}
      const path = ${JSON.stringify(path)};
      const [rows, size] = [3, 1024];
      if (isMainThread) {
        // Moves each column one on: row i has its 1 in column i + 1.
        mx.tidy(() => mx.saveSafetensors(path, { weights: mx.eye(size, size, 1) }));
        mx.clearCache();
        const workers = Array.from({ length: 50 }, (_, i) => new Worker(self, { workerData: i }));
        const wrong = await Promise.all(workers.map((each) => once(each, 'message')));
        const { peak, limit, waiting } = mx.evaluations();
        const maps = readFileSync('/proc/self/maps', 'utf8');
        console.log(JSON.stringify({
          wrong: wrong.flat().reduce((sum, count) => sum + count),
          atOnce: peak > 1 && peak <= limit,
          waiting,
          maps: maps.split('\\n').filter((line) => line.includes(path)).length,
          copied: mx.memory().active >= 4 * size * size,
        }));
        for (const each of workers) each.postMessage('end');
        await Promise.all(workers.map((each) => once(each, 'exit')));
      } else {
        const weights = mx.loadSafetensors(path).tensors.get('weights');
        let wrong = 0;
        for (let i = 0; i < 100; i++) {
          const first = 1000 * workerData + i;
          const result = mx.tidy(() =>
            mx.arange(first, first + rows * size).astype('float32').reshape([rows, size])
              .matmul(weights).multiply(2));
          const values = await result.data();
          result.dispose();
          for (let j = 0; j < values.length; j++) {
            if (values[j] !== (j % size === 0 ? 0 : 2 * (first + j - 1))) wrong += 1;
          }
        }
        // Stays with its weights until all have been counted.
        parentPort.once('message', () => parentPort.close());
        parentPort.postMessage(wrong);
      }
    `);
    expect({ ...outcome, stdout: '' }).toEqual(ended(''));
    expect(JSON.parse(outcome.stdout)).toEqual({
      wrong: 0,
      atOnce: true,
      waiting: 0,
      maps: 1,
      copied: false,
    });
  });
});

test('8 evaluations at once from one thread, beside ops that block it', async () => {
  const outcome = await program.run(`${start}
    const product = (n) => mx.tidy(() => mx.full([200, 300], n).matmul(mx.full([300, 10], 0.5)));
    for (let round = 0; round < 20; round++) {
      const graphs = Array.from({ length: 8 }, (_, i) => product(i));
      const values = graphs.map((graph) => graph.data());
      if (product(round).dataSync()[0] !== 150 * round) console.log('wrong', round);
      for (const [i, each] of (await Promise.all(values)).entries()) {
        if (!each.every((value) => value === 150 * i)) console.log('wrong', round, i);
      }
    }
  `);
  expect(outcome).toEqual(ended(''));
});

test('a file is saved while other evaluations read its arrays', async () => {
  const path = join(program.folder, 'saved.safetensors');
  const outcome = await program.run(`${start}
    const path = ${JSON.stringify(path)};
    for (let round = 0; round < 20; round++) {
      // Not computed when the evaluations begin and the file is written.
      const cache = mx.tidy(() => mx.arange(0, 40000).astype('float32').add(round).reshape([200, 200]));
      const reading = Array.from({ length: 6 }, (_, i) => mx.tidy(() => cache.matmul(cache).add(i).max()));
      const results = reading.map((each) => each.item());
      mx.saveSafetensors(path, { cache });
      const saved = mx.loadSafetensors(path).tensors.get('cache').dataSync();
      const inMemory = await cache.data();
      if (inMemory[0] !== round || !inMemory.every((value, i) => value === saved[i])) console.log('wrong');
      const [first, ...others] = await Promise.all(results);
      if (!(first > 0) || others.some((other, i) => other < first || other > first * 1.001)) console.log('differs');
      rmSync(path);
    }
  `);
  expect(outcome).toEqual(ended(''));
});
