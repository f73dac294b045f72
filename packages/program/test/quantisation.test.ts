import { join } from 'node:path';
import { mx, UsageError, type MxArray } from '@mlx-runners/mlx-core';
import {
  checkExport,
  compileModel,
  exportModel,
  loadExport,
  packingOf,
  quantisationTypes,
  type ExportDescription,
  type Method,
  type WeightQuantisation,
} from '@mlx-runners/program';
import { expect, test } from 'vitest';
import { normal, numbers, scratchFolder } from './models.js';

/** Ids → rows of a table, through a layer and a head, which may be the table. */
function embedder(given: { dtype?: 'float32' | 'float16'; tied?: boolean } = {}) {
  const { dtype = 'float32', tied = false } = given;
  const weights: Record<string, MxArray> = {
    table: normal(1, [40, 64]).astype(dtype),
    layer: normal(2, [64, 64]).multiply(0.125).astype(dtype),
    head: normal(3, [40, 64]).astype(dtype),
  };
  if (tied) delete weights.head;
  const run: Method = {
    dimensions: { T: { min: 1, max: 9 } },
    inputs: { ids: { dtype: 'int32', shape: ['T'], below: 40 } },
    run: ({ ids }) => {
      const hidden = mx.linear(weights.table.take(ids, 0), weights.layer).tanh();
      return { y: mx.linear(hidden, weights.head ?? weights.table) };
    },
  };
  return { weights, run, dtype };
}

function descriptionOf(
  { weights, run, dtype }: ReturnType<typeof embedder>,
  quantised: Partial<ExportDescription>,
): ExportDescription {
  const parameters = new Map(Object.entries(weights));
  return { model: { id: 'test/q' }, dtype, methods: { run }, parameters, ...quantised };
}

async function exported(description: ExportDescription): Promise<string> {
  const folder = join(scratchFolder(), 'model');
  await exportModel(folder, description);
  return folder;
}

function storedNames(folder: string): string[] {
  return [...mx.loadSafetensors(join(folder, 'weights.safetensors')).tensors.keys()].sort();
}

/** Findings of export-check that are not ok, and those on rounding. */
async function checked(folder: string, model: ReturnType<typeof embedder>) {
  const findings = await checkExport(folder, {
    methods: { run: model.run },
    model: {
      parameters: new Map(Object.entries(model.weights)),
      load: (rounded) => Object.assign(model.weights, Object.fromEntries(rounded)),
    },
    budgets: { methods: { run: { traces: [{ instructions: 4 }] } } },
  });
  return {
    failed: findings.filter(({ ok }) => !ok),
    rounding: findings.flatMap(({ what }) => (what.startsWith('weights') ? [what] : [])),
  };
}

test.each(quantisationTypes)('linear layers and embeddings as %s', async (type) => {
  const model = embedder();
  const folder = await exported(descriptionOf(model, { qlinear: { type }, qembedding: { type } }));
  const parts = type.endsWith('w') ? ['biases', 'codes', 'scales'] : ['codes', 'scales'];
  expect(storedNames(folder)).toEqual(
    ['head', 'layer', 'table'].flatMap((name) => parts.map((part) => `${name}.${part}`)),
  );
  const packing = packingOf({ type });
  expect(loadExport(folder).manifest.quantization).toEqual({ linear: packing, embedding: packing });
  const named = type.replace('w', ' bits');
  expect(await checked(folder, model)).toEqual({
    failed: [],
    rounding: [`weights of embeddings of ${named}`, `weights of ${named}`],
  });
});

test.each<[string, Partial<ExportDescription>, string[]]>([
  ['linears alone', { qlinear: { type: 'mxfp8' } }, ['layer.codes', 'layer.scales', 'table']],
  ['embeddings alone', { qembedding: { type: 'mxfp8' } }, ['layer', 'table.codes', 'table.scales']],
  [
    'both, each in its own way',
    { qlinear: { type: '4w', groupSize: 64 }, qembedding: { type: 'nvfp4' } },
    ['layer.biases', 'layer.codes', 'layer.scales', 'table.codes', 'table.scales'],
  ],
])('a tied table is one of embeddings: %s', async (_, quantised, names) => {
  const model = embedder({ tied: true });
  const folder = await exported(descriptionOf(model, quantised));
  expect(storedNames(folder)).toEqual(names);
  expect((await checked(folder, model)).failed).toEqual([]);
});

test('rows of a quantised table keep their dtype', async () => {
  const model = embedder({ dtype: 'float16' });
  const folder = await exported(
    descriptionOf(model, { qlinear: { type: '8w' }, qembedding: { type: '8w' } }),
  );
  expect((await checked(folder, model)).failed).toEqual([]);
  const ids = mx.array([3, 0], null, 'int32');
  const { outputs } = await loadExport(folder).session().run('run', { ids });
  expect(outputs.y.dtype).toBe('float16');
});

test('an encoder apart from the rest, and as the rest unless said otherwise', async () => {
  const weights = { inside: normal(1, [32, 64]), outside: normal(2, [32, 64]) };
  const layer = (name: keyof typeof weights): Method => ({
    inputs: { x: { dtype: 'float32', shape: [2, 64] } },
    run: ({ x }) => ({ y: mx.linear(x, weights[name]) }),
  });
  const description: ExportDescription = {
    model: { id: 'test/encoder' },
    dtype: 'float32',
    methods: { encode: layer('inside'), decode: layer('outside') },
    encoderMethods: ['encode'],
    parameters: new Map(Object.entries(weights)),
  };
  const sizes = async (quantised: Partial<ExportDescription>) => {
    const folder = await exported({ ...description, ...quantised });
    const findings = await checkExport(folder, {
      methods: description.methods,
      model: {
        parameters: description.parameters,
        load: (rounded) => Object.assign(weights, Object.fromEntries(rounded)),
      },
    });
    expect(findings.filter(({ ok }) => !ok)).toEqual([]);
    Object.assign(weights, Object.fromEntries(description.parameters));
    const { tensors } = mx.loadSafetensors(join(folder, 'weights.safetensors'));
    return ['inside', 'outside'].map((name) => tensors.get(`${name}.codes`)?.shape[1]);
  };
  const [four, eight]: WeightQuantisation[] = [{ type: '4w' }, { type: '8w' }];
  expect(await sizes({ qlinear: four })).toEqual([8, 8]);
  expect(await sizes({ qlinear: four, qlinearEncoder: eight })).toEqual([16, 8]);
  expect(await sizes({ qlinearEncoder: eight })).toEqual([16, undefined]);
});

test('what a checkpoint has packed stays, and asking for more is refused when nothing is left', async () => {
  const { run, weights, dtype } = embedder();
  const blocks = { table: 'Q8_0', layer: 'Q4_0', head: 'Q4_0' };
  const packed = Object.fromEntries(
    Object.entries(blocks).map(([name, format]) => [name, mx.blockQuantize(weights[name], format)]),
  );
  const method = (head: (x: MxArray) => MxArray): Method => ({
    ...run,
    run: ({ ids }) => {
      const rows = mx.blockTake(packed.table, ids, blocks.table);
      return { y: head(mx.blockLinear(rows, packed.layer, blocks.layer)) };
    },
  });
  const all = method((x) => mx.blockLinear(x, packed.head, blocks.head));
  const wrong = descriptionOf({ weights: packed, run: all, dtype }, { qlinear: { type: '4w' } });
  await expect(compileModel(wrong)).rejects.toThrow(
    new UsageError("qlinear: the model's linear layers are packed already, as Q4_0: leave it out."),
  );
  const table = descriptionOf({ weights: packed, run: all, dtype }, { qembedding: { type: '4w' } });
  await expect(compileModel(table)).rejects.toThrow(
    "qembedding: the model's tables of embeddings are packed already, as Q8_0: leave it out.",
  );
  const mixed = { ...packed, head: weights.head };
  const some = method((x) => mx.linear(x, mixed.head));
  const folder = await exported(
    descriptionOf({ weights: mixed, run: some, dtype }, { qlinear: { type: 'mxfp4' } }),
  );
  expect(storedNames(folder)).toEqual(['head.codes', 'head.scales', 'layer', 'table']);
});

test('rows that are no whole groups are not quantised, and none at all is refused', async () => {
  const model = embedder();
  await expect(
    exported(descriptionOf(model, { qlinear: { type: '4w', groupSize: 128 } })),
  ).rejects.toThrow(
    'qlinear: the model has no linear layers with rows of a multiple of 128 floats that can be quantised.',
  );
});

test('compiled programs are quantised, too', async () => {
  const model = embedder({ tied: true });
  const quantised = { qlinear: { type: '8w' }, qembedding: { type: '8w' } } as const;
  const description = descriptionOf(model, quantised);
  const ids = mx.array([1, 39, 0], null, 'int32');
  const [compiled, reloaded] = await Promise.all(
    [await compileModel(description), loadExport(await exported(description))].map(async (each) =>
      numbers((await each.session().run('run', { ids })).outputs.y),
    ),
  );
  expect(compiled).toEqual(reloaded);
});
