import { cpSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { CheckpointError, mx, ProgramError, type MxArray } from '@mlx-runners/mlx-core';
import {
  formatReport,
  inspectExport,
  isExport,
  loadExport,
  readExport,
  verifyFiles,
  type Manifest,
  type Method,
  type ProgramFile,
  type Size,
} from '@mlx-runners/program';
import { expect, test } from 'vitest';
import { editManifest, editTrace, rehash } from './edits.js';
import { cachedAttention, exported, normal, scratchFolder } from './models.js';

type Trace = ProgramFile['traces'][number];

const { method: step, parameters } = cachedAttention();

const stacked: Method = {
  inputs: { x: { dtype: 'float32', shape: [2] } },
  run: ({ x }) => ({ y: mx.concatenate([x, x.add(1)]) }),
};

/** Loading is refused, as is inspecting, with a message of readable length. */
function expectRefusal(folder: string, message: RegExp): void {
  for (const read of [loadExport, inspectExport]) {
    let error: unknown;
    try {
      read(folder);
    } catch (caught) {
      error = caught;
    }
    expect(error).toBeInstanceOf(ProgramError);
    const text = (error as Error).message;
    expect(text).toMatch(message);
    expect(text.length).toBeLessThan(700);
    // eslint-disable-next-line no-control-regex -- what a terminal would obey
    expect(text).not.toMatch(/[\u0000-\u001f\u007f-\u009f]/);
  }
}

const traces: [string, (trace: Trace) => unknown, RegExp][] = [
  [
    'two inputs of one name',
    ({ inputs }) => inputs.push({ ...inputs[0], slot: 900 }),
    /traces\.0\.inputs: two are called x/,
  ],
  [
    'an input named like a dimension',
    ({ inputs }) => inputs.push({ ...inputs[0], name: 'past' }),
    /traces\.0\.inputs: two are called past/,
  ],
  [
    'two outputs of one name',
    ({ outputs }) => outputs.push(outputs[0]),
    /traces\.0\.outputs: two are called y/,
  ],
  [
    'a state twice',
    ({ states }) => states.push(states[0]),
    /traces\.0\.states: two are called keys/,
  ],
  [
    'a constant twice',
    ({ constants }) => constants.push(constants[0]),
    /traces\.0\.constants: two are called k\.weight/,
  ],
  [
    'an output that takes the name of a prototype',
    ({ outputs }) => (outputs[0].name = '__proto__'),
    /traces\.0\.outputs\.0\.name: has characters that no name has/,
  ],
  [
    'a name that a terminal would obey',
    ({ inputs }) => (inputs[0].name = '\u001b[2J'),
    /traces\.0\.inputs\.0\.name: has characters that no name has/,
  ],
  [
    'an op that objects inherit',
    ({ instructions }) => (instructions[0].op = 'constructor'),
    /there is no op "constructor"/,
  ],
  [
    'a state that objects inherit',
    ({ states }) => (states[0].name = 'constructor'),
    /don't both have the state "constructor"/,
  ],
  [
    'a constant that objects inherit',
    ({ constants }) => (constants[0].name = 'toString'),
    /There is no constant "toString"/,
  ],
  [
    'a dimension that objects inherit',
    ({ instructions }) => (instructions[0].results[0].shape = ['hasOwnProperty']),
    /There is no dimension "hasOwnProperty"/,
  ],
  [
    'a size that is nested deeply',
    ({ limits }) => (limits[0].size = nested(150)),
    /traces\.0\.limits\.0\.size: is nested too deeply/,
  ],
  [
    'a size that is nested more deeply than anyone can read',
    ({ limits }) => (limits[0].size = nested(3000)),
    /nested too deeply/,
  ],
  [
    'a list of more sizes than fit on the stack',
    ({ instructions }) => (instructions[0].args[1] = { list: Array<Size>(300_000).fill('T') }),
    /instruction 0 \(linear at .*weight has an argument of a kind that does not fit/,
  ],
  [
    'a shape of more axes than arrays have',
    ({ inputs }) => (inputs[0].shape = Array<Size>(1_000_000).fill('T')),
    /traces\.0\.inputs\.0\.shape: Too big/,
  ],
  [
    'a text of any length',
    ({ instructions }) => (instructions[0].args[1] = 'a'.repeat(1e6)),
    /traces\.0\.instructions\.0\.args\.1/,
  ],
  [
    'a limit that is long to say',
    ({ limits, dimensions }) => {
      const long = 'T'.repeat(500);
      dimensions[long] = dimensions.T;
      limits.push({ size: ['+', long, ['+', long, long]], max: -1 });
    },
    /manifest\.json has other inputs, outputs or dimensions of step/,
  ],
];

function nested(depth: number): Size {
  let size: Size = 'T';
  for (let i = 0; i < depth; i++) size = ['+', size, 1];
  return size;
}

test.each(traces)('%s is refused', async (_, change, message) => {
  const folder = await exported({ step }, parameters);
  editTrace(folder, 'step', change);
  expectRefusal(folder, message);
});

const manifests: [string, (manifest: Manifest) => unknown, RegExp][] = [
  [
    'inputs of another shape than the program',
    ({ methods }) => (methods.step.inputs.x.shape = [1, 'T', 9]),
    /manifest\.json has other inputs, outputs or dimensions of step than .*step\.json/,
  ],
  [
    'no inputs',
    ({ methods }) => (methods.step.inputs = {}),
    /manifest\.json has other inputs, outputs or dimensions/,
  ],
  [
    'outputs of another dtype',
    ({ methods }) => (methods.step.outputs.y.dtype = 'float16'),
    /manifest\.json has other inputs, outputs or dimensions/,
  ],
  [
    'dimensions of another range',
    ({ methods }) => (methods.step.dimensions.past.max = 3),
    /manifest\.json has other inputs, outputs or dimensions/,
  ],
  [
    'a dimension more',
    ({ methods }) => (methods.step.dimensions.constructor = { min: 0, max: 1 } as never),
    /manifest\.json has other inputs, outputs or dimensions/,
  ],
  [
    'a state that no method has',
    ({ states }) => (states.more = { dtype: 'float32', shape: [1] }),
    /don't both have the state "more"/,
  ],
  [
    'a state too few',
    ({ states }) => Reflect.deleteProperty(states, 'keys'),
    /don't both have the state "keys"/,
  ],
  [
    'weights twice',
    ({ weights }) => weights.push(weights[0]),
    /has the weights weights\.safetensors twice/,
  ],
  [
    'weights that are not listed',
    ({ weights }) => weights.push('constructor'),
    /names constructor, which is no file of it/,
  ],
  [
    'a method without a program',
    ({ methods }) => (methods.toString = methods.step as never),
    /step\.json holds "step", not "toString"/,
  ],
  [
    'a file that lies elsewhere',
    ({ files }) => (files['../../etc/passwd'] = files['weights.safetensors']),
    /files\.\.\.\/\.\.\/etc\/passwd: must be the path of a file inside the folder/,
  ],
  [
    'a long name',
    ({ files }) => (files['a'.repeat(1e6)] = files['weights.safetensors']),
    /files\.a+…: Too big/,
  ],
];

test.each(manifests)('a manifest with %s is refused', async (_, change, message) => {
  const folder = await exported({ step }, parameters);
  editManifest(folder, change);
  expectRefusal(folder, message);
});

test('names that objects inherit are names like others', async () => {
  const folder = await exported({ step }, parameters);
  const names = { x: 'constructor', y: 'toString', past: 'valueOf', keys: 'hasOwnProperty' };
  for (const file of ['programs/step.json', 'manifest.json']) {
    let text = readFileSync(join(folder, file), 'utf8');
    for (const [from, to] of Object.entries(names)) text = text.replaceAll(`"${from}"`, `"${to}"`);
    writeFileSync(join(folder, file), text);
  }
  rehash(folder, 'programs/step.json');
  const session = loadExport(folder).session();
  const x = normal(1, [1, 2, 8]);
  const { outputs } = await session.run('step', { [names.x]: x, [names.past]: 0 });
  expect(Object.keys(outputs)).toEqual(['toString']);
  const calls: [Record<string, MxArray | number>, string][] = [
    [{}, 'step needs the array constructor.'],
    [{ [names.x]: x }, 'step needs the dimension valueOf: a whole number from 0 to 15.'],
    [{ [names.x]: x, [names.past]: 0, [names.keys]: 1 }, 'and no "hasOwnProperty"'],
  ];
  for (const [inputs, message] of calls) {
    await expect(session.run('step', inputs)).rejects.toThrow(message);
  }
});

test('constants that are nested deeply, or long to say', async () => {
  const folder = await exported({ step }, parameters);
  editManifest(folder, ({ constants }) => {
    constants.text = `\u009b2J${'a'.repeat(1e6)}`;
    constants.deep = JSON.parse(`${'['.repeat(500)}${']'.repeat(500)}`) as never;
  });
  const report = formatReport(inspectExport(folder));
  expect(report).toContain('  text: "\\u009b2Jaaa');
  expect(report.length).toBeLessThan(2000);
  editManifest(folder, ({ constants }) => {
    constants.deep = '@';
  });
  const path = join(folder, 'manifest.json');
  const deep = `${'['.repeat(1e5)}${']'.repeat(1e5)}`;
  writeFileSync(path, readFileSync(path, 'utf8').replace('"@"', deep));
  expectRefusal(folder, /manifest\.json is not the manifest .*: it is nested too deeply/);
});

test.each(['manifest.json', 'programs/step.json'])('a huge %s is not read', async (file) => {
  const folder = await exported({ step }, parameters);
  truncateSync(join(folder, file), 2 ** 40);
  expectRefusal(folder, /has 1099511627776 bytes, and may have \d+ at most/);
});

test('two files of weights that have a tensor of the same name are refused', async () => {
  const folder = await exported({ step }, parameters);
  const [first, second] = ['weights.safetensors', 'more.safetensors'];
  cpSync(join(folder, first), join(folder, second));
  editManifest(folder, ({ files, weights }) => {
    files[second] = files[first];
    weights.push(second);
  });
  expectRefusal(folder, /more\.safetensors has "[\w.+]+", as another file of the weights has/);
});

test('an op of more arrays than fit on the stack is refused', async () => {
  const folder = await exported({ stacked });
  editTrace(folder, 'stacked', (trace) => {
    trace.instructions[1].args[0] = { slots: Array<number>(200_000).fill(0) };
  });
  expectRefusal(folder, /concatenate at /);
});

test('a program of very many instructions is loaded', async () => {
  const chain: Method = {
    inputs: { x: { dtype: 'float32', shape: [1] } },
    run: ({ x }) => ({ y: x.add(1).add(2) }),
  };
  const folder = await exported({ chain });
  editTrace(folder, 'chain', ({ instructions }) => {
    const [, last] = instructions;
    for (let i = 0; i < 20_000; i++) instructions.push(last);
  });
  const [trace] = inspectExport(folder).methods.chain.traces;
  expect(trace.instructions).toBe(20_002);
});

test('weights that are none', async () => {
  const folder = await exported({ step }, parameters);
  writeFileSync(join(folder, 'weights.safetensors'), 'no tensors');
  rehash(folder, 'weights.safetensors');
  expect(() => loadExport(folder)).toThrow(CheckpointError);
});

test('what is no folder of an export', async () => {
  const folder = scratchFolder();
  const file = join(folder, 'file');
  writeFileSync(file, 'text');
  for (const read of [loadExport, readExport, inspectExport, isExport]) {
    for (const none of [undefined, null, '', 3, new URL('file:///tmp')]) {
      expect(() => read(none as string)).toThrow(/^\w+\(\) takes the path of a folder, not /);
    }
  }
  await expect(verifyFiles(undefined as never)).rejects.toThrow(/takes the path of a folder/);
  for (const read of [loadExport, readExport, inspectExport]) {
    expect(() => read(file)).toThrow(`${file} is a file; an exported model is a folder.`);
    expect(() => read(folder)).toThrow(/manifest\.json can't be read: there is no such file/);
    expect(() => read(`${folder}\0`)).toThrow(ProgramError);
  }
  expect([isExport(folder), isExport(file), isExport(`${folder}\0`)]).toEqual([
    false,
    false,
    false,
  ]);
});

test('verifying says what it does not know', async () => {
  const folder = await exported({ step }, parameters);
  await expect(verifyFiles(folder, { sginal: 1 } as never)).rejects.toThrow(
    'verifyFiles() has no option sginal: did you mean signal?',
  );
  const path = join(folder, 'weights.safetensors');
  const bytes = readFileSync(path);
  bytes[bytes.length - 1] ^= 1;
  writeFileSync(path, bytes);
  await expect(verifyFiles(folder)).rejects.toThrow(ProgramError);
  await expect(verifyFiles(folder)).rejects.toThrow(/is not the file that was exported/);
});

test('a shape in an error is short', async () => {
  const session = loadExport(await exported({ stacked })).session();
  const x = normal(1, [2]).reshape(Array<number>(60).fill(1).concat(2));
  const call = session.run('stacked', { x });
  await expect(call).rejects.toThrow(/x is float32\[1, 1, .*, and has to be float32 with 1 axes/);
});
