/** The files of `exportMlxfn`, run by MLX for Python: the same numbers as a session gives. */
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  AbortedError,
  FileError,
  mx,
  ProgramError,
  ShapeError,
  UsageError,
  type MxArray,
} from '@mlx-runners/mlx-core';
import {
  exportMlxfn,
  exportModel,
  loadExport,
  type ExportDescription,
  type Method,
  type MlxfnManifest,
  type MlxfnOptions,
} from '@mlx-runners/program';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { callInPython, installMlx, type PythonCall } from './mlx-python.js';
import { cachedAttention, normal, numbers, scratchFolder } from './models.js';

const tolerance = 1e-5;

const described = (
  methods: ExportDescription['methods'],
  parameters: Record<string, MxArray> = {},
): ExportDescription => ({
  model: { id: 'test/model' },
  dtype: 'float32',
  methods,
  parameters: new Map(Object.entries(parameters)),
});

async function written(
  description: ExportDescription,
  options?: MlxfnOptions,
): Promise<{ folder: string; manifest: MlxfnManifest }> {
  const folder = join(scratchFolder(), 'mlxfn');
  return { folder, manifest: await exportMlxfn(folder, description, options) };
}

describe('in Python', () => {
  let unavailable: string | undefined;

  beforeAll(async () => {
    unavailable = await installMlx();
    if (unavailable !== undefined) console.warn(`SKIPPED: ${unavailable}`);
  }, 300_000);
  beforeEach((context) => {
    if (unavailable !== undefined) context.skip(unavailable);
  });

  /** Runs calls of one session here and there, and compares the results. */
  async function compare(
    description: ExportDescription,
    calls: readonly PythonCall[],
    options?: MlxfnOptions,
  ): Promise<MlxfnManifest['methods'][string]> {
    const { folder, manifest } = await written(description, options);
    const [[name, method]] = Object.entries(manifest.methods);
    const there = await callInPython(folder, scratchFolder(), name, calls);
    const own = join(scratchFolder(), 'own');
    await exportModel(own, description);
    const session = loadExport(own).session();
    for (const [i, { inputs, lengths }] of calls.entries()) {
      const { outputs } = await session.run(name, { ...inputs, ...lengths });
      const names = [...Object.keys(outputs), ...method.nextStates];
      expect(Object.keys(there[i]).sort()).toEqual(names.sort());
      for (const [output, array] of Object.entries(outputs)) {
        expect(there[i][output]).toMatchObject({ shape: array.shape, dtype: array.dtype });
        expect(await error(there[i][output], array)).toBeLessThan(tolerance);
      }
    }
    session.dispose();
    return method;
  }

  test('linear layers at several sizes, in one file', async () => {
    const [first, second] = [normal(1, [16, 8]), normal(2, [4, 16])];
    const method: Method = {
      dimensions: { T: { min: 1, max: 20 } },
      inputs: { x: { dtype: 'float32', shape: ['T', 8] } },
      run: ({ x }) => ({ y: mx.linear(mx.linear(x, first).gelu(), second).softmax(-1) }),
    };
    const calls = [3, 1, 20].map((T) => ({ inputs: { x: normal(T, [T, 8]) } }));
    const sizes = { run: [{ T: 1 }, { T: 3 }, { T: 20 }, { T: 3 }] };
    const { inputs, sizes: there } = await compare(
      described({ run: method }, { first, second }),
      calls,
      {
        sizes,
      },
    );
    expect(inputs).toEqual({ x: { dtype: 'float32', shape: ['T', 8] } });
    expect(there).toEqual([{ T: 1 }, { T: 3 }, { T: 20 }]);
  });

  test('states are arguments and results, and so are dimensions of no shape', async () => {
    const { method, parameters } = cachedAttention();
    const calls = [
      { inputs: { x: normal(1, [1, 3, 8]) }, lengths: { past: 0 } },
      { inputs: { x: normal(2, [1, 1, 8]) }, lengths: { past: 3 } },
      { inputs: { x: normal(3, [1, 1, 8]) }, lengths: { past: 4 } },
    ];
    const at = [
      { T: 3, past: 0 },
      { past: 3, T: 1 },
      { T: 1, past: 4 },
    ];
    const described_ = described({ step: method }, parameters);
    const { inputs, states, nextStates } = await compare(described_, calls, {
      sizes: { step: at },
    });
    expect(inputs).toMatchObject({ past: { dtype: 'float32', shape: ['past'] } });
    expect(Object.keys(states)).toEqual(['keys', 'values']);
    expect(nextStates).toEqual(['keys', 'values']);
  });

  test('a state that is only written is no argument, one that is only read no result', async () => {
    const state = { dtype: 'float32', shape: [2] } as const;
    const write: Method = {
      inputs: { x: { dtype: 'float32', shape: [2] } },
      states: { kept: state },
      run: ({ x }, _, states) => {
        states.kept = x.multiply(2);
        return {};
      },
    };
    const read: Method = {
      inputs: {},
      states: { kept: state },
      run: (_, __, states) => ({ y: states.kept.add(1) }),
    };
    const { folder, manifest } = await written(described({ write, read }));
    expect(manifest.methods.write).toMatchObject({ states: {}, outputs: {}, nextStates: ['kept'] });
    expect(manifest.methods.read).toMatchObject({ states: { kept: state }, nextStates: [] });
    const x = mx.array([1, 2]);
    const [{ kept }] = await callInPython(folder, scratchFolder(), 'write', [{ inputs: { x } }]);
    expect(await numbers(kept)).toEqual([2, 4]);
    const [{ y }] = await callInPython(folder, scratchFolder(), 'read', [{ inputs: {} }]);
    expect(await numbers(y)).toEqual([1, 1]);
  });

  test('convolution, norms, rope and attention', async () => {
    const weights = {
      conv: normal(1, [8, 3, 8]),
      scale: normal(2, [8]),
      shift: normal(3, [8]),
    };
    const method: Method = {
      inputs: { x: { dtype: 'float32', shape: [1, 6, 8] } },
      run: ({ x }) => {
        const hidden = mx.conv1d(x, weights.conv, 1, 1);
        const normed = mx.layerNorm(hidden, weights.scale, weights.shift);
        const heads = normed.reshape([1, 6, 2, 4]).transpose([0, 2, 1, 3]);
        const turned = mx.rope(heads, 4, false, 10_000, 1, 3);
        const attended = mx.attention(turned, turned, heads, 0.5, 'causal', null, null, 3);
        const flat = attended.transpose([0, 2, 1, 3]).reshape([1, 6, 8]);
        const [sum, y] = mx.addRmsNorm(flat, x, weights.scale);
        return { y, gated: mx.swiglu(sum, y), spectrum: mx.rfft(y).abs() };
      },
    };
    await compare(described({ run: method }, weights), [{ inputs: { x: normal(4, [1, 6, 8]) } }]);
  });

  test.each([4, 8] as const)('linear layers of %i bits are products of MLX’s own', async (bits) => {
    const [table, first, bias] = [normal(1, [64, 64]), normal(2, [96, 64]), normal(3, [96])];
    const second = normal(4, [7, 96]);
    const method: Method = {
      inputs: { ids: { dtype: 'int32', shape: [3] } },
      run: ({ ids }) => {
        const hidden = mx.linear(table.take(ids, 0), first, bias);
        return { hidden, y: mx.linear(hidden, second) };
      },
    };
    const description = {
      ...described({ run: method }, { table, first, bias, second }),
      qlinear: { type: `${bits}w`, groupSize: 32 },
    } as const;
    const inputs = { ids: mx.array([5, 0, 63]).astype('int32') };
    await compare(description, [{ inputs }]);
    const { folder, manifest } = await written(description);
    expect(manifest.quantization).toEqual({ linear: { mode: 'affine', bits, groupSize: 32 } });
    const file = readFileSync(join(folder, 'run.mlxfn'), 'latin1');
    expect(file.match(/QuantizedMatmul/g)).toHaveLength(2);
  });

  test('blocks of GGUF files, by their formulas', async () => {
    const [weights, experts] = [normal(1, [5, 64]), normal(2, [2, 5, 64])];
    const blocks = mx.blockQuantize(weights, 'Q4_0');
    const others = mx.blockQuantize(experts, 'Q5_0');
    const method: Method = {
      inputs: {
        x: { dtype: 'float32', shape: [2, 64] },
        ids: { dtype: 'int32', shape: [2], below: 2 },
      },
      run: ({ x, ids }) => ({
        y: mx.blockLinear(x, blocks, 'Q4_0'),
        rows: mx.blockTake(blocks, ids, 'Q4_0'),
        gathered: mx.blockGatherLinear(x, others, ids, 'Q5_0'),
      }),
    };
    const ids = mx.array([1, 0]).astype('int32');
    await compare(described({ run: method }), [{ inputs: { x: normal(3, [2, 64]), ids } }]);
  });

  test('results that depend on nothing, or are an input; no rows at all', async () => {
    const method: Method = {
      dimensions: { T: { min: 0, max: 4 } },
      inputs: { x: { dtype: 'float32', shape: ['T', 2] } },
      run: ({ x }) => ({
        x,
        table: table.transpose(),
        zeros: mx.zeros([2]),
        sum: x.sum(0),
        whole: x.astype('int32').gelu(),
        rows: table.take(mx.arange(0, x.shape[0]).astype('int32'), 0).transpose().contiguous(),
      }),
    };
    const table = normal(1, [2, 3]);
    const calls = [{ inputs: { x: mx.zeros([0, 2]) } }, { inputs: { x: normal(2, [2, 2]) } }];
    await compare(described({ run: method }, { table }), calls, {
      sizes: { run: [{ T: 0 }, { T: 2 }] },
    });
  });
});

const linear = normal(1, [256, 256]);
const sized: Method = {
  dimensions: { T: { min: 1, max: 8 }, past: { min: 0, max: 14, multipleOf: 2 } },
  limits: [{ size: ['+', 'past', 'T'], max: 16 }],
  inputs: { x: { dtype: 'float32', shape: ['T', 256] } },
  run: ({ x }, { past }) => ({ y: mx.linear(x, linear).add(mx.arange(past, past + 1)) }),
};

test('what the folder says of its files', async () => {
  const source = join(scratchFolder(), 'tokenizer.json');
  writeFileSync(source, '{}');
  const description = {
    ...described({ run: sized }, { linear }),
    constants: { contextLength: 16 },
    files: { 'text/tokenizer.json': source },
  };
  const sizes = { run: [1, 2, 3].map((T) => ({ T, past: 4 })) };
  const { folder, manifest } = await written(description, { sizes });
  expect(readdirSync(folder).sort()).toEqual(['mlxfn.json', 'run.mlxfn', 'text']);
  expect(JSON.parse(readFileSync(join(folder, 'mlxfn.json'), 'utf8'))).toEqual(manifest);
  expect(manifest).toMatchObject({
    mlx: mx.buildInfo().mlx,
    model: { id: 'test/model' },
    constants: { contextLength: 16 },
    methods: {
      run: {
        file: 'run.mlxfn',
        inputs: { x: { shape: ['T', 256] }, past: { shape: ['past'] } },
        outputs: { y: { dtype: 'float32', shape: ['T', 256] } },
        sizes: sizes.run,
      },
    },
  });
  expect(Object.keys(manifest.files)).toEqual(['run.mlxfn', 'text/tokenizer.json']);
  // The weights are in it once.
  expect(statSync(join(folder, 'run.mlxfn')).size).toBeLessThan(1.1 * linear.nbytes);
});

test.each<[string, MlxfnOptions['sizes'], RegExp]>([
  [
    'none',
    {},
    /^run has dimensions \(T 1 to 8, past 0 to 14 in steps of 2, past \+ T at most 16\), .* such as run:T=1,past=0\.$/,
  ],
  ['an empty list', { run: [] }, /^run has dimensions/],
  ['of another method', { other: [{}] }, /^Sizes are given for "other"; the methods are run\.$/],
  [
    'without a dimension',
    { run: [{ T: 1 }] },
    /^run has the dimensions T, past: its sizes have no past\.$/,
  ],
  [
    'with an unknown one',
    { run: [{ T: 1, past: 0, P: 1 }] },
    /^run has the dimensions T, past: there is no "P"\.$/,
  ],
  [
    'that are no whole numbers',
    { run: [{ T: 1.5, past: 0 }] },
    /^sizes\.run\.0\.T must be a whole number, not 1\.5\.$/,
  ],
])('sizes: %s', async (_, sizes, message) => {
  const folder = join(scratchFolder(), 'mlxfn');
  const failed = exportMlxfn(folder, described({ run: sized }), { sizes });
  await expect(failed).rejects.toThrow(UsageError);
  await expect(failed).rejects.toThrow(message);
  expect(existsSync(folder)).toBe(false);
});

test.each([
  { T: 9, past: 0 },
  { T: 1, past: 3 },
  { T: 4, past: 14 },
  { T: -1, past: 0 },
])('sizes outside the ranges: %o', async (sizes) => {
  const failed = written(described({ run: sized }), { sizes: { run: [sizes] } });
  await expect(failed).rejects.toThrow(ShapeError);
  await expect(failed).rejects.toThrow(/^run can't have T=-?\d+,past=\d+: it takes T 1 to 8, /);
});

test('the first trace that takes a size is written, and a method without dimensions takes none', async () => {
  const at = (max: number, factor: number): Method => ({
    dimensions: { T: { min: 1, max } },
    inputs: { x: { dtype: 'float32', shape: ['T'] } },
    run: ({ x }) => ({ y: factor === 1 ? x.sin() : x.cos() }),
  });
  const sizes = { run: [{ T: 1 }, { T: 2 }] };
  const { folder } = await written(described({ run: [at(1, 1), at(4, 2)] }), { sizes });
  const file = readFileSync(join(folder, 'run.mlxfn'), 'latin1');
  expect(file.match(/Sin|Cos/g)).toEqual(['Sin', 'Cos']);
  const fixed: Method = { inputs: {}, run: () => ({ y: mx.ones([2]) }) };
  const { manifest } = await written(described({ fixed }));
  expect(manifest.methods.fixed.sizes).toEqual([{}]);
});

test('an op that MLX can’t write is named, with its line', async () => {
  const method: Method = {
    inputs: { x: { dtype: 'float32', shape: [2, 32] } },
    run: ({ x }) => ({ y: mx.blockQuantize(x.multiply(2), 'Q8_0') }),
  };
  const folder = join(scratchFolder(), 'mlxfn');
  const failed = exportMlxfn(folder, described({ run: method }));
  await expect(failed).rejects.toThrow(ProgramError);
  await expect(failed).rejects.toThrow(
    /^run, instruction 1 \(blockQuantize at .*mlxfn\.test\.ts:\d+\): MLX can't write QuantizeBlocks to a file/,
  );
  expect(readdirSync(join(folder, '..'))).toEqual([]);
});

test('arguments of one name', async () => {
  const method: Method = {
    inputs: { kept: { dtype: 'float32', shape: [2] } },
    states: { kept: { dtype: 'float32', shape: [2] } },
    run: ({ kept }, _, states) => ({ y: kept.add(states.kept) }),
  };
  const failed = written(described({ run: method }));
  await expect(failed).rejects.toThrow(ProgramError);
  await expect(failed).rejects.toThrow('run has two arguments that are called kept');
});

test('programs of any length are written or refused', async () => {
  const chain = (length: number): Method => ({
    inputs: { x: { dtype: 'float32', shape: [1] } },
    run: ({ x }) => {
      for (let i = 0; i < length; i++) x = i % 2 === 0 ? x.sin() : x.cos();
      return { y: x };
    },
  });
  await written(described({ run: chain(9_990) }));
  await expect(written(described({ run: chain(10_010) }))).rejects.toThrow(
    /^run, instruction \d+ .*: more than 10000 operations follow one another/,
  );
}, 60_000);

test('a folder that is no export is left alone; an earlier export is replaced', async () => {
  const folder = join(scratchFolder(), 'mlxfn');
  mkdirSync(folder);
  writeFileSync(join(folder, 'notes.txt'), 'mine');
  const options = { sizes: { run: [{ T: 1, past: 0 }] } };
  await expect(exportMlxfn(folder, described({ run: sized }), options)).rejects.toThrow(FileError);
  expect(readdirSync(folder)).toEqual(['notes.txt']);

  const other = join(scratchFolder(), 'other');
  await exportModel(other, described({ run: sized }));
  await exportMlxfn(other, described({ again: sized }), { sizes: { again: options.sizes.run } });
  expect(readdirSync(other).sort()).toEqual(['again.mlxfn', 'mlxfn.json']);
  await exportModel(other, described({ run: sized }));
  expect(readdirSync(other).sort()).toEqual(['manifest.json', 'programs', 'weights.safetensors']);
});

test('an abort leaves nothing behind, and the earlier export', async () => {
  const folder = join(scratchFolder(), 'mlxfn');
  const sizes = { run: Array.from({ length: 8 }, (_, i) => ({ T: i + 1, past: 0 })) };
  await exportMlxfn(folder, described({ run: sized }), { sizes });
  const before = readFileSync(join(folder, 'mlxfn.json'), 'utf8');
  const abort = new AbortController();
  const failed = exportMlxfn(folder, described({ run: sized }), { sizes, signal: abort.signal });
  setImmediate(() => abort.abort());
  await expect(failed).rejects.toThrow(AbortedError);
  expect(readFileSync(join(folder, 'mlxfn.json'), 'utf8')).toBe(before);
  expect(readdirSync(join(folder, '..'))).toEqual(['mlxfn']);
});

/** The largest, relative to the range of the values. */
async function error(actual: MxArray, expected: MxArray): Promise<number> {
  const [a, b] = [await numbers(actual), await numbers(expected)];
  const range = Math.max(...b, 0) - Math.min(...b, 0) || 1;
  return Math.max(0, ...b.map((value, i) => Math.abs(a[i] - value) / range));
}
