import { AbortedError, mx, type MxArray } from '@mlx-runners/mlx-core';
import {
  checkExport,
  exportModel,
  loadExport,
  type Arrays,
  type CheckOptions,
  type ExportCall,
  type Finding,
  type WeightQuantisation,
  type Method,
} from '@mlx-runners/program';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { cachedAttention, exported, linearRows, normal, scratchFolder } from './models.js';

const { method, parameters } = linearRows;
const { weight } = parameters;

const withRun = (run: Method['run']): Method => ({ ...method, run });

async function failures(folder: string, options: CheckOptions): Promise<Finding[]> {
  return (await checkExport(folder, options)).filter(({ ok }) => !ok);
}

/** What is found when the export does something else than the model. */
async function found(run: Method['run'], model: Method['run']): Promise<string[]> {
  const folder = await exported({ run: withRun(run) }, parameters);
  const failed = await failures(folder, { methods: { run: withRun(model) } });
  for (const { what } of failed) expect(what).toMatch(/^run: results/);
  return failed.map((finding) => finding.found);
}

test('a result that drifts fails', async () => {
  const drifting = await found(
    (inputs) => ({ y: mx.linear(inputs.x, weight).add(inputs.x) }),
    ({ x }) => ({
      y: mx.linear(x, weight).add(0.1).add(x),
    }),
  );
  expect(drifting).toHaveLength(2);
  for (const text of drifting) expect(text).toMatch(/e-[1-3] of their range, at most 1e-4/);
});

const other = normal(2, [4, 4]);

test.each<[string, (x: MxArray, weight: MxArray) => MxArray]>([
  ['beside a mask', (x, w) => mx.concatenate([mx.linear(x, w), x.multiply(0).add(-1e9)], -1)],
  ['a single small one', (x, w) => mx.linear(x, w).square().mean().multiply(1e-6)],
  ['a single large one', (x, w) => mx.linear(x, w).square().mean().multiply(1e6)],
  ['complex', (x, w) => mx.linear(x, w).rfft()],
])('results of other weights fail, of the same pass: %s', async (_, compute) => {
  const run =
    (w: MxArray): Method['run'] =>
    ({ x }) => ({ y: compute(x, w) });
  expect(await found(run(weight), run(weight))).toEqual([]);
  expect(await found(run(other), run(weight))).toHaveLength(2);
});

test.each<[string, Method['run'], Method['run'], RegExp]>([
  ['missing', ({ x }) => ({ y: x }), ({ x }) => ({ y: x, z: x.add(1) }), /^z is missing$/],
  [
    'new',
    ({ x }) => ({ y: x, z: x.add(1) }),
    ({ x }) => ({ y: x }),
    /^z is no result of the model$/,
  ],
  [
    'of another dtype',
    ({ x }) => ({ y: x.add(1) }),
    ({ x }) => ({ y: x.add(1).astype('float16') }),
    /^y is float32\[\d+, 4\], in the model float16\[\d+, 4\]$/,
  ],
  [
    'of another shape',
    ({ x }) => ({ y: x.add(1) }),
    ({ x }) => ({ y: x.add(1).reshape([-1]) }),
    /^y is float32\[\d+, 4\], in the model float32\[\d+\]$/,
  ],
  [
    'NaN in both',
    ({ x }) => ({ y: x.multiply(NaN) }),
    ({ x }) => ({ y: x.multiply(NaN) }),
    /^y has values that are NaN$/,
  ],
  [
    'an integer off by one',
    ({ x }) => ({ y: x.astype('int32') }),
    ({ x }) => ({ y: x.astype('int32').add(1) }),
    /^integers differ$/,
  ],
])('a result that is %s fails', async (_, run, model, message) => {
  const folder = await exported({ run: withRun(run) }, parameters);
  const budgets = { methods: { run: { traces: [{ ops: { astype: 1 } }] } } };
  const [failure] = await failures(folder, { methods: { run: withRun(model) }, budgets });
  expect(failure.what).toMatch(/^run: results/);
  expect(failure.found).toMatch(message);
});

test('a call that fails is a finding', async () => {
  const folder = await exported({ run: method }, parameters);
  const wider: Method = { ...method, inputs: { x: { dtype: 'float32', shape: ['T', 5] } } };
  const model: Method = { ...wider, run: ({ x }) => ({ y: x }) };
  const [failure] = await failures(folder, { methods: { run: model } });
  expect(failure).toMatchObject({ what: 'results', found: expect.stringMatching(/x/) as string });
});

test('caches and host integers are compared, from call to call', async () => {
  const { method: step, parameters: weights } = cachedAttention();
  const folder = await exported({ step }, weights);
  expect(await failures(folder, { methods: { step } })).toEqual([]);
});

/** Adds what it gets to what it has got, and says what it had before. */
const counter = (gain: number): Method => ({
  inputs: { x: { dtype: 'float32', shape: [2] } },
  states: { sum: { dtype: 'float32', shape: [2] } },
  run: ({ x }, _, states) => {
    const y = states.sum.add(x);
    states.sum = x.multiply(gain).add(states.sum);
    return { y };
  },
});

test('a state that drifts shows in the next call', async () => {
  const folder = await exported({ count: counter(1) });
  expect(await failures(folder, { methods: { count: counter(1) } })).toEqual([]);
  const failed = await failures(folder, { methods: { count: counter(2) } });
  expect(failed).toHaveLength(1);
});

test('integers are drawn below what the method says', async () => {
  const table = normal(3, [7, 4]);
  const look: Method = {
    dimensions: { T: { min: 1, max: 30 } },
    inputs: {
      ids: { dtype: 'int32', shape: [200], below: 7 },
      at: { dtype: 'int32', shape: [200], below: 'T' },
      x: { dtype: 'float32', shape: ['T', 4] },
    },
    run: ({ ids, at, x }) => ({ y: table.take(ids, 0).add(x.take(at, 0)) }),
  };
  const folder = await exported({ look }, { table });
  const given: ExportCall[] = [];
  const findings = await checkExport(folder, {
    methods: { look },
    run: async (path, calls) => {
      given.push(...calls);
      using session = loadExport(path).session();
      const results: Arrays[] = [];
      for (const { inputs } of calls) results.push((await session.run('look', inputs)).outputs);
      return results;
    },
  });
  expect(findings.filter(({ ok }) => !ok)).toEqual([]);
  const ids = await (given[0].inputs.ids as MxArray).data();
  expect([...new Set(Array.from(ids, Number))].sort()).toEqual([0, 1, 2, 3, 4, 5, 6]);
});

test('an abort ends it', async () => {
  const folder = await exported({ run: method }, parameters);
  const signal = AbortSignal.abort();
  await expect(checkExport(folder, { methods: { run: method }, signal })).rejects.toThrow(
    AbortedError,
  );
});

/** A linear layer that can be given other weights, and its quantised export. */
async function quantisedExport(
  qlinear: WeightQuantisation,
): Promise<{ folder: string; options: CheckOptions; loaded: string[] }> {
  const layer = { weight: normal(4, [32, 64]), bias: normal(5, [32]) };
  const linear: Method = {
    inputs: { x: { dtype: 'float32', shape: [3, 64] } },
    run: ({ x }) => ({ y: mx.linear(x, layer.weight, layer.bias) }),
  };
  const all = new Map(Object.entries(layer));
  const folder = join(scratchFolder(), 'model');
  await exportModel(folder, {
    model: { id: 'test/linear' },
    dtype: 'float32',
    methods: { linear },
    parameters: all,
    qlinear,
  });
  const loaded: string[] = [];
  const load = (rounded: ReadonlyMap<string, MxArray>): void => {
    loaded.push(...rounded.keys());
    Object.assign(layer, Object.fromEntries(rounded));
  };
  return { folder, options: { methods: { linear }, model: { parameters: all, load } }, loaded };
}

test.each<WeightQuantisation>([
  { type: '4w', groupSize: 32 },
  { type: '8w', groupSize: 64 },
  { type: 'nvfp4' },
  { type: 'mxfp4' },
  { type: 'mxfp8' },
])('a quantised export computes what the model does with the same weights: %j', async (qlinear) => {
  const { folder, options, loaded } = await quantisedExport(qlinear);
  const findings = await checkExport(folder, options);
  expect(findings.filter(({ ok }) => !ok)).toEqual([]);
  expect(loaded).toEqual(['weight']);
  const { found: rounding } = findings.find(
    ({ what }) => what === `weights of ${qlinear.type.replace('w', ' bits')}`,
  )!;
  expect(rounding).toMatch(
    /^1, off by \d\.\d\d % of their group's range, at most (6\.67|0\.39|8\.90|10\.01|2\.94) %$/,
  );
});

test('a quantised export is not what the model computes otherwise', async () => {
  const { folder, options } = await quantisedExport({ type: '4w', groupSize: 32 });
  const failed = await failures(folder, { methods: options.methods });
  expect(failed.map(({ what }) => what)).toEqual(Array(2).fill('linear: results at {}'));
});

test('calls of methods with a cache follow one another, as far as there is room', async () => {
  const { method, parameters } = cachedAttention();
  const once = { ...method, dimensions: { ...method.dimensions, T: { min: 1, max: 1 } } };
  const methods = { step: [once, method] };
  const folder = await exported(methods, parameters);
  const asked: unknown[] = [];
  const cacheLengths = { step: { before: 'past', added: 'T' } };
  const findings = await checkExport(folder, {
    methods,
    cacheLengths,
    sessionOptions: (constants) => {
      asked.push(constants);
      return { step: { profile: true } };
    },
  });
  expect(findings.filter(({ ok }) => !ok)).toEqual([]);
  expect(asked).toEqual([{}]);
  const sizes = findings.flatMap(({ what }) => {
    const found = /^step: results at (.*)$/.exec(what);
    return found ? [JSON.parse(found[1]) as { T: number; past: number }] : [];
  });
  let length = 0;
  for (const { T, past } of sizes) {
    expect(past).toBe(length);
    length += T;
  }
  expect(sizes.length).toBeGreaterThanOrEqual(3);
  expect(length).toBeLessThanOrEqual(16);
});

test('a cache whose length no dimension says is refused', async () => {
  const { method, parameters } = cachedAttention();
  const folder = await exported({ step: method }, parameters);
  const cacheLengths = { step: { before: 'position', added: 'T' } };
  await expect(checkExport(folder, { methods: { step: method }, cacheLengths })).rejects.toThrow(
    'cacheLengths: there is no dimension "position".',
  );
});
