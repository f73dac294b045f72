import { mx, type MxArray } from '@mlx-runners/mlx-core';
import { exportModel, loadExport, readExport, type Method } from '@mlx-runners/program';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { normal, numbers, scratchFolder } from './models.js';

const [heads, size] = [2, 8];

/** The angles' cosines and sines, [T, size] each, for positions from `past` on. */
function tables(length: number, past: number): { cos: MxArray; sin: MxArray } {
  const exponents = mx.arange(0, size, 2).divide(size);
  const inverse = mx.power(10_000, exponents).reciprocal();
  const angles = mx.outer(mx.arange(past, past + length, 1, 'float32'), inverse);
  const both = mx.concatenate([angles, angles], -1);
  return { cos: both.cos(), sin: both.sin() };
}

type Turn = (x: MxArray) => MxArray;

const bySplit: Turn = (x) => {
  const [first, second] = x.split(2, -1);
  return mx.concatenate([second.negative(), first], -1);
};
const bySlices: Turn = (x) => {
  const [batch, count, length] = x.shape;
  const first = x.slice([0, 0, 0, 0], [batch, count, length, size / 2]);
  const second = x.slice([0, 0, 0, size / 2], [batch, count, length, size]);
  return mx.concatenate([second.negative(), first], -1);
};
const withoutSign: Turn = (x) => {
  const [first, second] = x.split(2, -1);
  return mx.concatenate([second, first], -1);
};
const swapped: Turn = (x) => {
  const [first, second] = x.split(2, -1);
  return mx.concatenate([first.negative(), second], -1);
};

const rotating = (turn: Turn): Method => ({
  dimensions: { T: { min: 1, max: 16 }, past: { min: 0, max: 100 } },
  inputs: {
    q: { dtype: 'float32', shape: [1, heads, 'T', size] },
    k: { dtype: 'float32', shape: [1, heads, 'T', size] },
  },
  run: ({ q, k }, { past }) => {
    const { cos, sin } = tables(q.shape[2], past);
    const rotate = (x: MxArray): MxArray => x.multiply(cos).add(sin.multiply(turn(x)));
    return { q: rotate(q), k: rotate(k) };
  },
});

/** Ops of the exported program, and its largest error against the eager model. */
async function exportedOps(method: Method): Promise<{ ops: string[]; error: number }> {
  const folder = join(scratchFolder(), 'model');
  const parameters = new Map<string, MxArray>();
  await exportModel(folder, {
    model: { id: 'rope' },
    dtype: 'float32',
    methods: { method },
    parameters,
  });
  const [program] = readExport(folder).programs;
  const ops = program.traces[0].instructions.map(({ op }) => op);
  const [q, k] = [normal(1, [1, heads, 3, size]), normal(2, [1, heads, 3, size])];
  const { outputs } = await loadExport(folder).session().run('method', { q, k, past: 7 });
  const eager = method.run({ q, k }, { T: 3, past: 7 }, {});
  const errors: number[] = [];
  for (const name of ['q', 'k']) {
    const expected = await numbers(eager[name]);
    const actual = await numbers(outputs[name]);
    errors.push(...actual.map((value, i) => Math.abs(value - expected[i])));
  }
  return { ops, error: Math.max(...errors) };
}

test.each([
  ['a split', bySplit],
  ['slices', bySlices],
])('a rotation by %s becomes rope, its tables disappear', async (_, turn) => {
  const { ops, error } = await exportedOps(rotating(turn));
  expect(ops).toEqual(['rope', 'rope']);
  expect(error).toBeLessThan(1e-5);
});

test.each([
  ['without the sign', withoutSign],
  ['of the wrong half', swapped],
])('what is no rotation stays: %s', async (_, turn) => {
  const { ops, error } = await exportedOps(rotating(turn));
  expect(ops).not.toContain('rope');
  expect(error).toBeLessThan(1e-5);
});
