/** Every way to end a process, with live arrays and with promises of evaluations that have not ended. */
import { afterAll, expect, test } from 'vitest';
import { plainPackage, type Outcome } from './plain-package.js';

const program = plainPackage();
afterAll(() => program.remove());

const runs = 20;
const atOnce = 4;

/** What `busy()` leaves behind: arrays, evaluations of a few milliseconds each, and their promises. */
const start = `
  import { once } from 'node:events';
  import { setTimeout as sleep } from 'node:timers/promises';
  import { fileURLToPath } from 'node:url';
  import { isMainThread, parentPort, Worker } from 'node:worker_threads';
  import { mx } from 'mlx-core';
  const self = fileURLToPath(import.meta.url);
  const long = () => mx.tidy(() => {
    const x = mx.full([192, 192], 1 / 192);
    let product = x;
    for (let i = 0; i < 12; i++) product = mx.matmul(product, x);
    return product;
  });
  const busy = () => {
    globalThis.arrays = Array.from({ length: 6 }, long);
    globalThis.promises = globalThis.arrays.flatMap((array) => [array.data(), mx.eval(array.add(1))]);
  };`;

const inWorker = (worker: string, main = 'new Worker(self);') => `
  if (isMainThread) {
    ${main}
  } else {
    busy();
    ${worker}
  }`;

const scenes: [string, (delay: number) => string][] = [
  ['the main program falls off its end', () => 'busy();'],
  [
    'the main program calls process.exit()',
    (delay) => `busy(); await sleep(${delay}); process.exit();`,
  ],
  ['a worker falls off its end', () => inWorker('')],
  ['a worker calls process.exit()', (delay) => inWorker(`await sleep(${delay}); process.exit();`)],
  [
    'a worker is terminated',
    (delay) =>
      inWorker(
        `parentPort.postMessage('busy'); await sleep(10_000);`,
        `const worker = new Worker(self);
         await once(worker, 'message');
         await sleep(${delay});
         await worker.terminate();
         busy();`,
      ),
  ],
  [
    'the main program calls process.exit() while workers compute',
    (delay) =>
      inWorker(
        `parentPort.postMessage('busy'); await sleep(10_000);`,
        `const workers = [new Worker(self), new Worker(self)];
         busy();
         await Promise.all(workers.map((each) => once(each, 'message')));
         await sleep(${delay});
         process.exit();`,
      ),
  ],
];

test.each(scenes)(`exit code 0, ${runs} of ${runs} times: %s`, async (_, scene) => {
  const outcomes: Outcome[] = [];
  let next = 0;
  const runner = async () => {
    while (next < runs) {
      // At another moment each time.
      const delay = 3 * next++;
      outcomes.push(await program.run(`${start}${scene(delay)}`));
    }
  };
  await Promise.all(Array.from({ length: atOnce }, runner));
  const clean: Outcome = { code: 0, signal: null, stdout: '', stderr: '' };
  expect(outcomes).toEqual(Array.from({ length: runs }, () => clean));
});
