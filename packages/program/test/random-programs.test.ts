import { mx, type MxArray } from '@mlx-runners/mlx-core';
import { exportModel, loadExport, type Method } from '@mlx-runners/program';
import fc from 'fast-check';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { normal, numbers, scratchFolder } from './models.js';

/** A step takes earlier arrays, by numbers that wrap round, and makes one of shape [T, 4]. */
type Step = (at: (i: number) => MxArray, i: number, j: number) => MxArray;

const table = normal(7, [4]);
const square = normal(8, [4, 4]);
const projections = [9, 10, 11].map((seed) => normal(seed, [4, 4]));
mx.evalSync(table, square, ...projections);

const steps: Record<string, Step> = {
  add: (at, i, j) => at(i).add(at(j)),
  subtract: (at, i, j) => at(i).subtract(at(j)),
  multiply: (at, i, j) => at(i).multiply(at(j)).tanh(),
  scalar: (at, i, j) => at(i).multiply((j % 5) - 2.5),
  casts: (at, i) => at(i).astype('float16').astype('float32').astype('float16').astype('float32'),
  same: (at, i) => at(i).astype('float32'),
  reshapes: (at, i) => at(i).reshape([-1]).reshape([4, -1]).reshape([-1, 4]),
  identity: (at, i) => at(i).transpose([0, 1]),
  turned: (at, i) => at(i).transpose([1, 0]).reshape([-1, 4]),
  unit: (at, i) => at(i).reshape([1, -1, 4]).transpose([1, 0, 2]).reshape([-1, 4]),
  reversed: (at, i) => at(i).flip(1),
  constant: (at, i) => at(i).add(table.square().exp().sum()).tanh(),
  positions: (at, i) =>
    at(i)
      .add(mx.arange(at(i).shape[0]).reshape([-1, 1]))
      .sin(),
  linear: (at, i) => at(i).matmul(square.transpose()).add(table).tanh(),
  norm: (at, i) => at(i).multiply(at(i).square().mean(-1, true).add(1e-3).rsqrt()).multiply(table),
  attention: (at, i, j) => {
    const [q, k, v] = [at(i), at(j), at(i + j)].map((x) => x.tanh().reshape([1, 2, -1, 2]));
    const scores = q.matmul(k.swapaxes(-1, -2)).multiply(0.7).softmax(-1);
    return scores.matmul(v).reshape([-1, 4]);
  },
  projections: (at, i) => {
    const [q, k, v] = projections.map((weight) => mx.linear(at(i), weight).reshape([-1, 2, 2]));
    return q.multiply(k.tanh()).add(v).reshape([-1, 4]).tanh();
  },
  halves: (at, i) => {
    const [a, b] = at(i).split(2, 1);
    return mx.concatenate([b, a], 1);
  },
};

const program = fc.array(fc.tuple(fc.constantFrom(...Object.keys(steps)), fc.nat(30), fc.nat(30)), {
  minLength: 1,
  maxLength: 14,
});

test('a random program means the same before and after all passes', async () => {
  const folder = scratchFolder();
  let cases = 0;
  await fc.assert(
    fc.asyncProperty(program, fc.constantFrom(2, 6, 8), async (chosen, size) => {
      const method: Method = {
        dimensions: { T: { min: 2, max: 8, multipleOf: 2 } },
        inputs: { x: { dtype: 'float32', shape: ['T', 4] } },
        run: ({ x }) => {
          const made = [x];
          const at = (i: number): MxArray => made[i % made.length];
          for (const [name, i, j] of chosen) made.push(steps[name](at, i, j));
          return { last: made.at(-1)!, middle: made[made.length >> 1] };
        },
      };
      const x = normal(size, [size, 4]);
      const results: number[][] = [];
      for (const passes of [[], undefined]) {
        const target = join(folder, String(cases++));
        await exportModel(target, {
          model: { id: 'test/random' },
          dtype: 'float32',
          methods: { run: method },
          parameters: new Map(),
          passes,
        });
        const { outputs } = await loadExport(target).session().run('run', { x });
        results.push([...(await numbers(outputs.last)), ...(await numbers(outputs.middle))]);
      }
      const [plain, optimised] = results;
      for (const [i, value] of plain.entries()) expect(optimised[i]).toBeCloseTo(value, 3);
    }),
    { numRuns: 30, seed: 1 },
  );
});
