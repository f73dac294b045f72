import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { AbortedError, mx, ProgramError } from '@mlx-runners/mlx-core';
import {
  exportModel,
  jsonSchemas,
  loadExport,
  readExport,
  verifyFiles,
  type ExportDescription,
  type Method,
} from '@mlx-runners/program';
import { expect, test } from 'vitest';
import { editManifest, editTrace } from './edits.js';
import { exported, normal, numbers, scratchFolder } from './models.js';

const weight = normal(1, [3, 4]);
const other = normal(2, [3]);

const method: Method = {
  dimensions: { T: { min: 1, max: 20 } },
  inputs: { x: { dtype: 'float32', shape: ['T', 4] } },
  run: ({ x }) => ({ y: mx.linear(x, weight).add(other).maximum(-Infinity) }),
};

const parameters = { 'layer.weight': weight, 'layer.bias': other };

test('an export is a folder of ordinary files', async () => {
  const folder = await exported({ run: method }, parameters);
  expect(readdirSync(folder).sort()).toEqual(['manifest.json', 'programs', 'weights.safetensors']);
  const { manifest, programs } = readExport(folder);
  expect(manifest).toMatchObject({
    formatVersion: 1,
    mlx: mx.buildInfo().mlx,
    model: { id: 'test/model' },
    weights: ['weights.safetensors'],
    methods: {
      run: {
        program: 'programs/run.json',
        inputs: { x: { dtype: 'float32', shape: ['T', 4] } },
        outputs: { y: { dtype: 'float32', shape: ['T', 3] } },
      },
    },
  });
  const [trace] = programs[0].traces;
  expect(trace.instructions.map(({ op }) => op)).toEqual(['linear', 'maximum']);
  expect(trace.instructions[1].args[1]).toEqual({ number: '-Infinity' });
  expect(programs[0].sources[0]).toMatch(/^@mlx-runners\/program\/test\/folder\.test\.ts:\d+$/);
  const { tensors } = mx.loadSafetensors(join(folder, 'weights.safetensors'));
  expect([...tensors.keys()]).toEqual(['layer.weight', 'layer.bias']);
  expect(await numbers(tensors.get('layer.bias')!)).toEqual(await numbers(other));
  await verifyFiles(folder);
});

test('equal constants are stored once, different ones each', async () => {
  const table = (value: number): number[] => Array.from({ length: 4 }, () => value);
  const folder = await exported({
    equal: {
      ...method,
      run: ({ x }) => ({
        y: [1, 2, 3, 4, 5].reduce((y) => y.multiply(mx.array(table(7))).exp(), x),
      }),
    },
    different: {
      ...method,
      run: ({ x }) => ({ y: [7, 8, 9].reduce((y, n) => y.add(mx.array(table(n))).exp(), x) }),
    },
  });
  const { tensors } = mx.loadSafetensors(join(folder, 'weights.safetensors'));
  // The seven is in both.
  expect(tensors.size).toBe(3);
  const { programs } = readExport(folder);
  expect(programs.map(({ traces }) => traces[0].constants.length)).toEqual([1, 3]);
});

test('further files, published constants, and where a model comes from', async () => {
  const folder = join(scratchFolder(), 'out');
  const file = join(scratchFolder(), 'source.json');
  writeFileSync(file, '{"a": 1}');
  const description: ExportDescription = {
    model: { id: 'test/model', revision: 'abc', license: 'MIT' },
    dtype: 'float32',
    methods: { run: method },
    parameters: new Map(),
    constants: { contextLength: 448 },
    files: { 'tokenizer/tokenizer.json': file },
  };
  await exportModel(folder, description);
  expect(readFileSync(join(folder, 'tokenizer/tokenizer.json'), 'utf8')).toBe('{"a": 1}');
  const { manifest } = loadExport(folder);
  expect(manifest.constants).toEqual({ contextLength: 448 });
  expect(manifest.model).toEqual(description.model);
  await verifyFiles(folder);
  writeFileSync(join(folder, 'tokenizer/tokenizer.json'), '{"a": 2}');
  await expect(verifyFiles(folder)).rejects.toThrow(
    /tokenizer\.json is not the file that was exported/,
  );
  const aborted = verifyFiles(folder, { signal: AbortSignal.abort() });
  await expect(aborted).rejects.toThrow(AbortedError);
});

test.each([
  [4, 0.2],
  [8, 0.02],
] as const)('linear layers of %i bits', async (bits, tolerance) => {
  const [large, tied] = [normal(1, [96, 64]), normal(2, [64, 64])];
  const method: Method = {
    inputs: { ids: { dtype: 'int32', shape: [3] } },
    run: ({ ids }) => {
      const hidden = mx.linear(mx.linear(tied.take(ids, 0), large, bias), other);
      return { y: mx.linear(hidden, tied) };
    },
  };
  const other = normal(4, [64, 96]);
  const bias = normal(3, [96]);
  const folder = join(scratchFolder(), 'model');
  await exportModel(folder, {
    model: { id: 'test/quantised' },
    dtype: 'float32',
    methods: { run: method },
    parameters: new Map(Object.entries({ large, tied, other, bias })),
    qlinear: { type: `${bits}w`, groupSize: 32 },
  });
  const { tensors } = mx.loadSafetensors(join(folder, 'weights.safetensors'));
  const parts = ['codes', 'scales', 'biases'];
  expect([...tensors.keys()].sort()).toEqual(
    ['bias', 'tied', ...parts.flatMap((part) => [`large.${part}`, `other.${part}`])].sort(),
  );
  expect(tensors.get('large.codes')!.nbytes).toBe((96 * 64 * bits) / 8);
  const exportedModel = loadExport(folder);
  expect(exportedModel.manifest.quantization).toEqual({
    linear: { mode: 'affine', bits, groupSize: 32 },
  });
  const ids = mx.array([0, 5, 63], null, 'int32');
  const { outputs } = await exportedModel.session().run('run', { ids });
  const eager = await numbers(method.run({ ids }, {}, {}).y);
  const range = Math.max(...eager) - Math.min(...eager);
  const errors = (await numbers(outputs.y)).map((value, i) => Math.abs(value - eager[i]) / range);
  expect(Math.max(...errors)).toBeGreaterThan(0);
  expect(Math.max(...errors)).toBeLessThan(tolerance);
});

test('quantised layers whose parts are equal store them once', async () => {
  const once = normal(1, [32, 32]);
  const parameters = { once, twice: once.multiply(2), none: mx.zeros([8, 0]) };
  const folder = join(scratchFolder(), 'model');
  await exportModel(folder, {
    model: { id: 'test/equal' },
    dtype: 'float32',
    methods: {
      run: {
        inputs: { x: { dtype: 'float32', shape: [2, 32] } },
        run: ({ x }) => ({
          y: mx.linear(mx.linear(x, parameters.once).exp(), parameters.twice),
          z: mx.linear(x.slice([0, 0], [2, 0]), parameters.none),
        }),
      },
    },
    parameters: new Map(Object.entries(parameters)),
    qlinear: { type: '4w' },
  });
  const { tensors } = mx.loadSafetensors(join(folder, 'weights.safetensors'));
  expect([...tensors.keys()].filter((name) => name.endsWith('.codes'))).toEqual(['once.codes']);
  expect(loadExport(folder).manifest.model.id).toBe('test/equal');
});

const folders: [string, (folder: string) => void, RegExp][] = [
  [
    'another format version',
    (folder) => editManifest(folder, (manifest) => Object.assign(manifest, { formatVersion: 2 })),
    /has format version 2; this version reads 1/,
  ],
  [
    'a changed manifest',
    (folder) => {
      const path = join(folder, 'manifest.json');
      writeFileSync(path, readFileSync(path, 'utf8').replace('test/model', 'test/other'));
    },
    /manifest\.json was changed since it was exported/,
  ],
  [
    'a changed program',
    (folder) => {
      const path = join(folder, 'programs/run.json');
      writeFileSync(path, readFileSync(path, 'utf8').replace('maximum', 'minimum'));
    },
    /run\.json was changed since it was exported/,
  ],
  [
    'an unknown op',
    (folder) =>
      editTrace(folder, 'run', (trace) => {
        trace.instructions[0].op = 'linear2';
      }),
    /there is no op "linear2" \(at .*Was it exported by a newer version/,
  ],
  [
    'an invalid manifest',
    (folder) => editManifest(folder, (manifest) => Reflect.deleteProperty(manifest, 'dtype')),
    /is not the manifest of an exported model: dtype/,
  ],
  [
    'a program elsewhere',
    (folder) =>
      editManifest(folder, (manifest) => {
        manifest.methods.run.program = '../run.json';
      }),
    /methods\.run\.program: must be the path of a file inside the folder/,
  ],
  [
    'a program that is not listed',
    (folder) =>
      editManifest(folder, (manifest) => {
        manifest.methods.run.program = 'programs/other.json';
      }),
    /names programs\/other\.json, which is no file of it/,
  ],
  [
    'weights that are cut off',
    (folder) => {
      const path = join(folder, 'weights.safetensors');
      writeFileSync(path, readFileSync(path).subarray(0, -4));
    },
    /weights\.safetensors is missing or cut off/,
  ],
  [
    'a slot that is read before it is written',
    (folder) =>
      editTrace(folder, 'run', (trace) => {
        trace.slots += 1;
        trace.instructions[0].args[0] = { slot: trace.slots - 1 };
      }),
    /slot \d+ is read before it is written, by run, instruction 0 \(linear at/,
  ],
  [
    'a result of another shape',
    (folder) =>
      editTrace(folder, 'run', (trace) => {
        trace.instructions[0].results[0].shape = ['T', 5];
      }),
    /run, instruction 0 \(linear at .*it gives float32\[1, 3\], which is not what the program says/,
  ],
  [
    'too many arguments',
    (folder) =>
      editTrace(folder, 'run', (trace) => {
        trace.instructions[1].args.push(1);
      }),
    /maximum at .*the op takes 2 arguments/,
  ],
  [
    'an argument of another kind',
    (folder) =>
      editTrace(folder, 'run', (trace) => {
        trace.instructions[1].args[1] = 'float32';
      }),
    /b has an argument of a kind that does not fit/,
  ],
  [
    'a constant that there is not',
    (folder) =>
      editTrace(folder, 'run', (trace) => {
        trace.constants[0].name = 'layer.wait';
      }),
    /There is no constant "layer\.wait"/,
  ],
];

test.each(folders)('%s is refused', async (_, damage, message) => {
  const folder = await exported({ run: method }, parameters);
  damage(folder);
  expect(() => loadExport(folder)).toThrow(ProgramError);
  expect(() => loadExport(folder)).toThrow(message);
  // And says where.
  expect(() => loadExport(folder)).toThrow(folder);
});

test('the published schemas are those of the code', () => {
  for (const [name, schema] of Object.entries(jsonSchemas())) {
    const path = join(import.meta.dirname, '../schemas', name);
    expect(JSON.parse(readFileSync(path, 'utf8'))).toEqual(JSON.parse(JSON.stringify(schema)));
  }
});
