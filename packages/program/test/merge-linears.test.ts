import { mx, type MxArray } from '@mlx-runners/mlx-core';
import {
  allPasses,
  exportModel,
  hoistViews,
  loadExport,
  mergeConstants,
  mergeLinears,
  readExport,
  removeDeadCode,
  type Method,
  type Pass,
} from '@mlx-runners/program';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { normal, numbers, scratchFolder } from './models.js';

const passes: Pass[] = [mergeLinears, hoistViews, mergeConstants, removeDeadCode];

const weights = { q: normal(1, [8, 4]), k: normal(2, [8, 4]), v: normal(3, [8, 4]) };
const biases = { q: normal(4, [8]), v: normal(5, [8]) };
const narrow = normal(6, [4, 4]);
const project = (x: MxArray, name: keyof typeof weights): MxArray =>
  mx.linear(x, weights[name], name === 'k' ? null : biases[name]);

const parameters = new Map([...Object.entries(weights), ['narrow', narrow]]);

interface Optimised {
  ops: string[];
  constants: string[];
}

/** What passes make of a method, which computes the same afterwards as before. */
async function optimised(
  run: Method['run'],
  { length = 'T', through = passes }: { length?: 'T' | 1; through?: readonly Pass[] } = {},
): Promise<Optimised> {
  const folder = scratchFolder();
  const method: Method = {
    dimensions: length === 'T' ? { T: { min: 1, max: 9 } } : {},
    inputs: { x: { dtype: 'float32', shape: [1, length, 4] } },
    run,
  };
  const x = normal(9, [1, length === 'T' ? 9 : 1, 4]);
  const results: number[][] = [];
  for (const [name, these] of [
    ['before', []],
    ['after', through],
  ] as const) {
    await exportModel(join(folder, name), {
      model: { id: 'test/linears' },
      dtype: 'float32',
      methods: { run: method },
      parameters,
      passes: these,
    });
    const { outputs } = await loadExport(join(folder, name)).session().run('run', { x });
    results.push((await Promise.all(Object.values(outputs).map(numbers))).flat());
  }
  for (const [i, value] of results[0].entries()) expect(results[1][i]).toBeCloseTo(value, 5);
  const [trace] = readExport(join(folder, 'after')).programs[0].traces;
  return {
    ops: trace.instructions.map(({ op }) => op),
    constants: trace.constants.map(({ name }) => name),
  };
}

test('linears of one input become one, and a cut', async () => {
  const { ops, constants } = await optimised(({ x }) => ({
    q: project(x, 'q'),
    k: project(x, 'k'),
    v: project(x, 'v'),
  }));
  expect(ops).toEqual(['linear', 'splitAt']);
  expect(constants[0]).toBe('q+2');
});

test('linears of several inputs, or of one weight each, stay', async () => {
  const { ops } = await optimised(({ x }) => ({
    q: project(x, 'q'),
    k: project(x.exp(), 'k'),
    y: x.matmul(narrow),
  }));
  expect(ops).toEqual(['linear', 'exp', 'linear', 'matmul']);
});

test('a weight that is read elsewhere is not stored twice', async () => {
  const { ops, constants } = await optimised(({ x }) => ({
    q: project(x, 'q'),
    k: project(x, 'k'),
    norm: weights.k.square().sum(),
  }));
  expect(ops).not.toContain('splitAt');
  expect(constants).toEqual(expect.arrayContaining(['q', 'k']));
});

test('a layer that runs twice is merged twice, from the same weights', async () => {
  const layer = (x: MxArray): MxArray =>
    mx.linear(project(x, 'q').add(project(x, 'v')).tanh(), narrowing);
  const { ops, constants } = await optimised(({ x }) => ({ y: layer(layer(x)) }));
  expect(ops.filter((op) => op === 'splitAt')).toHaveLength(2);
  expect(constants.filter((name) => name.startsWith('q+'))).toEqual(['q+1']);
});

const narrowing = normal(7, [4, 8]);

test('of many linears at most four become one', async () => {
  const more = Array.from({ length: 9 }, (_, i) => normal(10 + i, [3, 4]));
  const { ops } = await optimised(({ x }) =>
    Object.fromEntries(more.map((weight, i) => [`y${i}`, mx.linear(x, weight)])),
  );
  expect(ops).toEqual(['linear', 'splitAt', 'linear', 'splitAt', 'linear']);
});

const heads = (x: MxArray, name: keyof typeof weights): MxArray =>
  project(x, name).reshape([1, x.shape[1], 2, 4]).transpose([0, 2, 1, 3]);

test('heads are made of all projections at once', async () => {
  const { ops } = await optimised(({ x }) => {
    const [q, k, v] = (['q', 'k', 'v'] as const).map((name) => heads(x, name));
    return { y: mx.scaledDotProductAttention(q, k, v, 0.5) };
  });
  expect(ops).toEqual(['linear', 'reshape', 'transpose', 'splitAt', 'scaledDotProductAttention']);
});

test('axes may count from the end', async () => {
  const turned = (x: MxArray, name: keyof typeof weights): MxArray =>
    project(x, name).reshape([1, x.shape[1], 2, 4]).transpose([0, 2, 1, -1]);
  const { ops } = await optimised(({ x }) => ({ q: turned(x, 'q'), k: turned(x, 'k') }));
  expect(ops).toEqual(['linear', 'reshape', 'transpose', 'splitAt']);
});

test('and those of a single token', async () => {
  const run: Method['run'] = ({ x }) => {
    const [q, k, v] = (['q', 'k', 'v'] as const).map((name) => heads(x, name));
    return { y: mx.scaledDotProductAttention(q, k, v, 0.5) };
  };
  const { ops } = await optimised(run, { length: 1, through: allPasses });
  expect(ops).toEqual(['linear', 'reshape', 'splitAt', 'scaledDotProductAttention']);
});

test('fewer heads of keys than of queries', async () => {
  const few = normal(8, [4, 4]);
  const { ops } = await optimised(({ x }) => {
    const q = heads(x, 'q');
    const k = mx.linear(x, few).reshape([1, x.shape[1], 1, 4]).transpose([0, 2, 1, 3]);
    return { q, k };
  });
  expect(ops).toEqual(['linear', 'reshape', 'transpose', 'splitAt']);
});

test.each<[string, Method['run']]>([
  [
    'different shapes',
    ({ x }) => ({ q: project(x, 'q').reshape([-1, 2, 4]), k: project(x, 'k').reshape([-1, 4, 2]) }),
  ],
  [
    'another use of a part',
    ({ x }) => {
      const k = project(x, 'k');
      return { q: project(x, 'q').reshape([-1, 2, 4]), k: k.reshape([-1, 2, 4]), same: k };
    },
  ],
  [
    'axes that are mixed with those before',
    ({ x }) => ({ q: project(x, 'q').reshape([-1, 4]), k: project(x, 'k').reshape([-1, 4]) }),
  ],
])('views of parts stay after the cut where they have %s', async (_, run) => {
  const { ops } = await optimised(run);
  expect(ops.slice(0, 2)).toEqual(['linear', 'splitAt']);
  expect(ops.slice(2)).toEqual(['reshape', 'reshape']);
});
