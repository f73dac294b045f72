import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { mx, UsageError } from '@mlx-runners/mlx-core';
import { exportModel, loadExport, type ExportDescription, type Method } from '@mlx-runners/program';
import { expect, test } from 'vitest';
import { scratchFolder } from './models.js';

const method: Method = {
  inputs: { x: { dtype: 'float32', shape: [2] } },
  run: ({ x }) => ({ y: x.add(1) }),
};

const description: ExportDescription = {
  model: { id: 'test/model' },
  dtype: 'float32',
  methods: { run: method },
  parameters: new Map(),
};

/** What exporting the description, with some of it changed, is refused with. Nothing is written. */
async function refusal(changed: Record<string, unknown>): Promise<string> {
  const folder = scratchFolder();
  const given = { ...description, ...changed };
  const error: unknown = await exportModel(join(folder, 'model'), given).then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(UsageError);
  expect(readdirSync(folder)).toEqual([]);
  return (error as Error).message;
}

const circle: Record<string, unknown> = {};
circle.circle = circle;

test.each<[string, Record<string, unknown>, string | RegExp]>([
  ['an unknown part', { metods: {} }, 'exportModel() has no option metods: did you mean methods?'],
  [
    'a dtype with a typing mistake',
    { dtype: 'flaot32' },
    /^dtype must be one of .*float32.*, not 'flaot32'\.$/,
  ],
  ['no dtype', { dtype: undefined }, /^dtype must be one of .*, not undefined\.$/],
  ['a model that is a text', { model: 'my/model' }, /^model must be an object .*, not 'my\/model'/],
  ['a model without an id', { model: {} }, 'model.id must be a text, not undefined.'],
  [
    'a model with an empty id',
    { model: { id: '' } },
    /^model\.id must be a text that is not empty/,
  ],
  [
    'an unknown part of the model',
    { model: { id: 'm', revison: '1' } },
    'model has no revison: it must be an object with an id, and a revision and license if there are any.',
  ],
  ['no methods', { methods: {} }, 'methods must have at least one method, not {}.'],
  ['a list of methods', { methods: [method] }, /^methods must be an object of methods by name/],
  [
    'methods that would be one file',
    { methods: { Run: method, run: method } },
    'methods.run: programs/Run.json is in the place of programs/run.json.',
  ],
  [
    'parameters as an object',
    { parameters: { weight: mx.ones([1]) } },
    /^parameters must be a Map of arrays by name, not /,
  ],
  [
    'a parameter that is no array',
    { parameters: new Map([['weight', [1, 2]]]) },
    'parameters.weight must be an MxArray, not a list of 2.',
  ],
  [
    'a parameter without a name',
    { parameters: new Map([[1, mx.ones([1])]]) },
    'parameters must be named by texts, not 1.',
  ],
  ['NaN', { constants: { scale: NaN } }, 'constants.scale must be what JSON can say, not NaN.'],
  ['undefined', { constants: { x: undefined } }, /^constants\.x must be .*, not undefined\.$/],
  ['a function', { constants: { x: () => 1 } }, /^constants\.x must be .* \[Function: x\]\.$/],
  ['a date', { constants: { x: [new Date(0)] } }, /^constants\.x must be what JSON can say/],
  ['a circle', { constants: circle }, /^constants.* must be what JSON can say/],
  ['a list of constants', { constants: [1] }, 'constants must be an object, not [ 1 ].'],
  [
    'a quantisation that there is not',
    { qlinear: { type: '3w' } },
    "qlinear.type must be one of 4w, 8w, nvfp4, mxfp4, mxfp8, not '3w'.",
  ],
  [
    'groups of another size',
    { qlinear: { type: '4w', groupSize: 16 } },
    'qlinear.groupSize must be 32, 64 or 128, not 16.',
  ],
  [
    'groups of a size that is fixed',
    { qembedding: { type: 'nvfp4', groupSize: 32 } },
    'qembedding.groupSize must be 16, not 32.',
  ],
  [
    'an encoder that is no method',
    { encoderMethods: ['runs'] },
    'encoderMethods: there is no method "runs": did you mean run?',
  ],
  [
    'the quantisation of no encoder',
    { qlinearEncoder: { type: '4w' } },
    'qlinearEncoder goes with encoderMethods, and this model has no encoder.',
  ],
  [
    'a pass that is none',
    { passes: ['dead-code'] },
    "passes.0 must be a function, not 'dead-code'.",
  ],
  [
    'one pass',
    { passes: () => 1 },
    /^passes must be a list of passes, not \[Function: passes\]\.$/,
  ],
])('%s is refused', async (_, changed, message) => {
  expect(await refusal(changed)).toEqual(
    typeof message === 'string' ? message : expect.stringMatching(message),
  );
});

test.each(['../out', 'a/b', '', '.', '1st', '__proto__/x', '__proto__', 'run\n'])(
  'a method has no name like %j',
  async (name) => {
    expect(await refusal({ methods: { run: method, [name]: method } })).toMatch(
      /^methods.* (must be named by letters, digits, _ and -|can't have .* __proto__)/,
    );
  },
);

test.each([
  '../a.json',
  '/a.json',
  'a/../../b',
  '',
  '.',
  'a//b',
  'a/',
  'a b',
  'C:\\a',
  '__proto__',
])('no file is put at %j', async (path) => {
  expect(await refusal({ files: { [path]: import.meta.filename } })).toMatch(
    /^files.* (must be the path of a file inside the folder|can't have .* __proto__)/,
  );
});

test.each([
  [['manifest.json']],
  [['Manifest.JSON']],
  [['weights.safetensors']],
  [['programs/run.json']],
  [['programs']],
  [['manifest.json/a']],
  [['vocabulary', 'vocabulary/tokens.txt']],
  [['a/b', 'a']],
  [['Tokenizer.json', 'tokenizer.json']],
])('no file is put in the place of another: %j', async (paths) => {
  const files = Object.fromEntries(paths.map((path) => [path, import.meta.filename]));
  expect(await refusal({ files })).toMatch(/^files\..* is in the place of /);
});

test('a file that is not there, or none, is refused before anything is traced', async () => {
  const folder = scratchFolder();
  const methods = {
    run: {
      ...method,
      run: () => {
        throw new Error('traced');
      },
    },
  };
  for (const source of [join(folder, 'missing.json'), folder]) {
    expect(await refusal({ methods, files: { 'a.json': source } })).toBe(
      `files.a.json: there is no file ${source}.`,
    );
  }
  expect(await refusal({ files: { 'a.json': 3 } })).toBe(
    'files.a.json must be the path of a file, not 3.',
  );
});

test('names that objects inherit are names like others', async () => {
  const folder = join(scratchFolder(), 'model');
  const source = join(scratchFolder(), 'a');
  writeFileSync(source, 'a');
  await exportModel(folder, {
    ...description,
    methods: { constructor: method, toString: method },
    constants: JSON.parse('{"constructor": 1}') as ExportDescription['constants'],
    files: JSON.parse('{"constructor": "' + source + '"}') as ExportDescription['files'],
  });
  const { manifest } = loadExport(folder);
  expect(Object.keys(manifest.methods)).toEqual(['constructor', 'toString']);
  expect(Object.keys(manifest.constants)).toEqual(['constructor']);
  expect(Object.keys(manifest.files)).toContain('constructor');
});

test('what is no folder, or no options, is refused', async () => {
  for (const folder of [undefined, null, '', 3, new URL('file:///tmp/x')]) {
    await expect(exportModel(folder as string, description)).rejects.toThrow(
      /^exportModel\(\) takes the path of a folder, not /,
    );
  }
  const folder = join(scratchFolder(), 'model');
  const exporting = (options: unknown): Promise<unknown> =>
    exportModel(folder, description, options as object);
  await expect(exporting({ sginal: 1 })).rejects.toThrow(
    'exportModel() has no option sginal: did you mean signal?',
  );
  await expect(exporting({ signal: 'now' })).rejects.toThrow(
    "signal must be an AbortSignal, not 'now'.",
  );
  await expect(exporting(null)).rejects.toThrow(UsageError);
  await expect(exportModel(folder, undefined as never)).rejects.toThrow(UsageError);
});

test('files are copied to folders of theirs', async () => {
  const folder = scratchFolder();
  mkdirSync(join(folder, 'from'));
  writeFileSync(join(folder, 'from', 'x'), 'text');
  const files = { '.hidden/a-b_c.1.txt': join(folder, 'from', 'x') };
  await exportModel(join(folder, 'model'), { ...description, files });
  expect(Object.keys(loadExport(join(folder, 'model')).manifest.files)).toContain(
    '.hidden/a-b_c.1.txt',
  );
});
