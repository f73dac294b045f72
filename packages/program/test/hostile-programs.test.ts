/** Programs that no model gives: refused when they are loaded, or with an error in the call, at once. */
import { MemoryError, mx, ProgramError, SequenceCache, ShapeError } from '@mlx-runners/mlx-core';
import {
  loadExport,
  type ExportedModel,
  type Method,
  type ProgramFile,
} from '@mlx-runners/program';
import { expect, onTestFinished, test } from 'vitest';
import { editMethod, editTrace } from './edits.js';
import { cachedAttention, exported, normal } from './models.js';

type Trace = ProgramFile['traces'][number];
type Instruction = Trace['instructions'][number];

/** y [T] = x [T] + 1, changed. */
async function changed(change: (trace: Trace) => unknown): Promise<ExportedModel> {
  const method: Method = {
    dimensions: { T: { min: 1, max: 0x7fffffff } },
    inputs: { x: { dtype: 'float32', shape: ['T'] } },
    run: ({ x }) => ({ y: x.add(1) }),
  };
  const folder = await exported({ run: method });
  editMethod(folder, 'run', change);
  return loadExport(folder);
}

/** The first instruction becomes this op of x. */
function becomes(op: string, args: Instruction['args'], shape: Trace['outputs'][number]['shape']) {
  return (trace: Trace): void => {
    const [instruction] = trace.instructions;
    Object.assign(instruction, { op, args: [instruction.args[0], ...args] });
    instruction.results[0].shape = shape;
    trace.outputs[0].shape = shape;
  };
}

test.each<[string, (trace: Trace) => unknown, RegExp]>([
  [
    'a mirrored padding in millions of steps',
    becomes('pad', [{ list: [3e8, 0] }, null, 'reflect'], [3e8 + 1]),
    /run, instruction 0 \(pad at .*\): .*over 1024 times its size/,
  ],
  [
    'a list of a million axes',
    becomes('expandDims', [{ list: Array<number>(1e6).fill(0) }], [1]),
    /a list has 1000000 elements, and may have 8192 at most/,
  ],
  ['millions of parts', becomes('split', [2 ** 30], [1]), /instruction 0 \(split/],
  [
    'more elements than MLX counts',
    becomes('tile', [{ list: [16, 0x7fffffff] }], [16, 0x7fffffff]),
    /the result would have 34359738352 elements/,
  ],
  [
    'two results in one slot',
    (trace) => {
      const [instruction] = trace.instructions;
      Object.assign(instruction, { op: 'split', args: [instruction.args[0], 1] });
      instruction.results.push(instruction.results[0]);
    },
    /two of its results share a slot/,
  ],
  [
    'a dimension without values',
    (trace) => Object.assign(trace.dimensions.T, { min: 3, max: 3, multipleOf: 2 }),
    /the dimension T has no valid range/,
  ],
  [
    'a division by zero',
    becomes('reshape', [{ list: [['//', 'T', 0]] }], [1]),
    /run: a size is divided by what is not positive/,
  ],
])('%s: refused', async (_, change, message) => {
  await expect(changed(change)).rejects.toThrow(ProgramError);
  await expect(changed(change)).rejects.toThrow(message);
});

test('what only a larger machine could run is loaded, without memory', async () => {
  const { active: before, limit } = mx.memory();
  onTestFinished(() => mx.setMemoryLimit(limit));
  mx.setMemoryLimit(64 << 20);
  const model = await changed(becomes('tile', [{ list: [1e9] }], [['*', 'T', 1e9]]));
  expect(mx.memory().active - before).toBeLessThan(1 << 20);
  const call = model.session().run('run', { x: mx.ones([1]) });
  await expect(call).rejects.toThrow(MemoryError);
  await expect(call).rejects.toThrow(/run, instruction 0 \(tile/);
});

test('more outputs than arrays may be alive are a MemoryError, and none of them stays', async () => {
  const method: Method = {
    inputs: { x: { dtype: 'float32', shape: [2] } },
    run: ({ x }) => {
      const y = x.add(1);
      return Object.fromEntries(Array.from({ length: 3000 }, (_, i) => [`y${i}`, y]));
    },
  };
  using model = loadExport(await exported({ many: method }));
  using session = model.session();
  const { arrays, limit } = mx.memory();
  onTestFinished(() => mx.setMemoryLimit(limit));
  mx.setMemoryLimit(4 << 20);
  using x = mx.ones([2]);
  await expect(session.run('many', { x })).rejects.toThrow(MemoryError);
  expect(mx.memory().arrays).toBeLessThan(arrays + 10);
});

test.each<[string, (trace: Trace) => unknown, RegExp]>([
  [
    'negative',
    becomes('zeros', [], [['+', 2, ['*', 'T', -1]]]),
    /run, instruction 0 \(zeros at .*negative/i,
  ],
  [
    'beyond 32 bits',
    becomes('tile', [{ list: [['*', 'T', ['*', 'T', 'T']]] }], [['*', 'T', 'T']]),
    /run, instruction 0 \(tile at .*\): reps would hold 8000000000, which is beyond 32 bits/,
  ],
  [
    'beyond 53 bits',
    (trace) => trace.limits.push({ size: ['*', 2 ** 50, 'T'], max: 2 ** 52 }),
    /run: a size is too large/,
  ],
])('a size that is %s in a call is an error that says where', async (_, change, message) => {
  const model = await changed((trace) => {
    change(trace);
    const [instruction] = trace.instructions;
    if (instruction.op === 'zeros') instruction.args = [{ list: instruction.results[0].shape }];
  });
  const call = model.session().run('run', { x: mx.ones([2000]) });
  await expect(call).rejects.toThrow(message);
});

test('shapes in errors have a readable length', async () => {
  const model = changed(becomes('expandDims', [{ list: [...Array(2000).keys()] }], ['T']));
  await expect(model).rejects.toThrow(/it gives float32\[1, 1, .*, … 2001 axes\]/);
});

test('indices that the program computes and that lie outside are an error', async () => {
  const table = normal(1, [5, 2]);
  const method: Method = {
    inputs: { ids: { dtype: 'int32', shape: [2] } },
    run: ({ ids }) => ({ y: table.take(ids.multiply(1000), 0) }),
  };
  using session = loadExport(await exported({ lookup: method }, { table })).session();
  for (let i = 0; i < 20; i++) {
    const call = session.run('lookup', { ids: mx.array([0, 1 + i], null, 'int32') });
    await expect(call).rejects.toThrow(ShapeError);
    await expect(call).rejects.toThrow(/lookup.*the index \d+ is outside an axis of size 5/);
  }
  const { outputs } = await session.run('lookup', { ids: mx.array([0, 0], null, 'int32') });
  expect(outputs.y.shape).toEqual([2, 2]);
});

test('a call that fails twice leaves nothing to the next one', async () => {
  const table = normal(1, [5, 2]);
  const method: Method = {
    dimensions: { past: { min: 0, max: 100 } },
    inputs: {
      x: { dtype: 'float32', shape: [1, 2, 1, 32] },
      ids: { dtype: 'int32', shape: [1] },
    },
    run: ({ x, ids }, { past }) => {
      const rows = table.take(ids.add(1), 0);
      let y = mx.updateAndAttend(x, x, x, past, 0, 1);
      // More than a chunk: the first still runs, or has failed, when the second is looked at.
      for (let i = 0; i < 40; i++) y = y.tanh();
      return { y, rows };
    },
  };
  using session = loadExport(await exported({ attend: method }, { table })).session();
  const layer = { kvHeads: 2, headSize: 32 };
  const call = (id: number, layers: number): ReturnType<typeof session.run> => {
    const cache = new SequenceCache({
      layers: Array.from({ length: layers }, () => layer),
      capacity: 9,
    });
    const ids = mx.full([1], id, 'int32');
    return session.run('attend', { x: mx.ones([1, 2, 1, 32]), ids, past: 0 }, { cache });
  };
  for (let i = 0; i < 10; i++) {
    await expect(call(1e6, 2)).rejects.toThrow(ShapeError);
    const { outputs } = await call(0, 1);
    expect(outputs.rows.shape).toEqual([1, 2]);
    await expect(call(1e6, 1)).rejects.toThrow(
      /instruction 0 .* to .*: \[take\] the index 1000001/,
    );
  }
});

test('a state in two slots is refused', async () => {
  const { method, parameters } = cachedAttention();
  const folder = await exported({ step: method }, parameters);
  editTrace(folder, 'step', (trace) => {
    trace.states[1].name = trace.states[0].name;
  });
  expect(() => loadExport(folder)).toThrow(/states: two are called keys/);
});
