import { mx, ProgramError, ShapeError, type MxArray } from '@mlx-runners/mlx-core';
import { AbortedError, DisposedError } from '@mlx-runners/mlx-core/errors';
import type { Arrays, Method } from '@mlx-runners/program';
import { expect, test } from 'vitest';
import { cachedAttention, loaded, normal, numbers } from './models.js';

const weight = normal(1, [4, 4]);

/** x [T, 4] → softmax of a linear layer, T of each row's elements. */
const rows: Method = {
  dimensions: { T: { min: 1, max: 100 } },
  inputs: { x: { dtype: 'float32', shape: ['T', 4] } },
  run: ({ x }) => ({ y: mx.linear(x, weight).softmax(-1), z: x.reshape([-1]).add(x.shape[0]) }),
};

test('an exported method gives what the model gives, at any size', async () => {
  const model = await loaded({ rows }, { weight });
  const session = model.session();
  for (const size of [1, 2, 7, 100]) {
    const x = normal(size, [size, 4]);
    const { outputs } = await session.run('rows', { x });
    const eager = rows.run({ x }, { T: size }, {});
    expect(outputs.y.shape).toEqual([size, 4]);
    expect(await numbers(outputs.y)).toEqual(await numbers(eager.y));
    expect(await numbers(outputs.z)).toEqual(await numbers(eager.z));
  }
});

test('inputs and constants that are returned as they are, and one result by two names', async () => {
  const through: Method = {
    inputs: { x: { dtype: 'float32', shape: [2] } },
    run: ({ x }) => {
      const y = x.add(1);
      return { x, weight, y, again: y };
    },
  };
  const session = (await loaded({ through }, { weight })).session();
  const x = mx.array([1, 2]);
  const { outputs } = await session.run('through', { x });
  x.dispose();
  expect(await numbers(outputs.x)).toEqual([1, 2]);
  expect(await numbers(outputs.weight)).toEqual(await numbers(weight));
  expect(await numbers(outputs.y)).toEqual([2, 3]);
  outputs.y.dispose();
  expect(await numbers(outputs.again)).toEqual([2, 3]);
});

test('inputs that are not computed yet', async () => {
  const session = (await loaded({ rows }, { weight })).session();
  const x = mx.ones([2, 4]).multiply(3).add(1);
  const { outputs } = await session.run('rows', { x });
  expect(await numbers(outputs.z)).toEqual(Array(8).fill(6));
});

test('sessions have states of their own', async () => {
  const total: Method = {
    inputs: { x: { dtype: 'float32', shape: [2] } },
    states: { total: { dtype: 'float32', shape: [2] } },
    run: ({ x }, _, states) => ({ total: (states.total = states.total.add(x)) }),
  };
  const model = await loaded({ total });
  const [a, b] = [model.session(), model.session()];
  const x = mx.array([1, 2]);
  const totals: Arrays[] = [];
  for (const session of [a, a, b, a]) totals.push((await session.run('total', { x })).outputs);
  expect(await Promise.all(totals.map((each) => numbers(each.total)))).toEqual([
    [1, 2],
    [2, 4],
    [1, 2],
    [3, 6],
  ]);
});

test('calls that are made at once run one after another', async () => {
  const count: Method = {
    inputs: {},
    states: { count: { dtype: 'int32', shape: [] } },
    run: (_, __, states) => ({ count: (states.count = states.count.add(1)) }),
  };
  const session = (await loaded({ count })).session();
  const calls = Array.from({ length: 50 }, () => session.run('count', {}));
  const counted = await Promise.all(calls.map(async (call) => (await call).outputs.count.item()));
  expect(counted).toEqual(Array.from({ length: 50 }, (_, i) => i + 1));
});

test('inputs that are yet to be computed keep the order, and may be disposed at once', async () => {
  const last: Method = {
    inputs: { x: { dtype: 'float32', shape: [2] } },
    states: { kept: { dtype: 'float32', shape: [2] } },
    run: ({ x }, _, states) => {
      const before = states.kept.multiply(1);
      states.kept = x.multiply(1);
      return { before };
    },
  };
  const read: Method = {
    inputs: {},
    states: { kept: { dtype: 'float32', shape: [2] } },
    run: (_, __, states) => ({ now: states.kept.multiply(1) }),
  };
  const session = (await loaded({ last, read })).session();
  const computed = mx.array([5, 6]);
  await mx.eval(computed);
  const calls = [1, 2, 3, 4].map((i) => {
    const x =
      i % 2
        ? normal(i, [300, 300])
            .matmul(normal(9, [300, 2]))
            .sum(0)
        : computed.add(0);
    if (i === 4) mx.evalSync(x);
    const call = session.run('last', { x });
    x.dispose();
    return call;
  });
  const before = await Promise.all(calls.map(async (call) => numbers((await call).outputs.before)));
  expect(before[0]).toEqual([0, 0]);
  expect(before[2]).toEqual([5, 6]);
  expect(new Set(before.map(String)).size).toBe(4);
  const { outputs } = await session.run('last', { x: computed });
  expect(await numbers(outputs.before)).toEqual([5, 6]);
  const failing = session.run('last', { x: mx.array([1, 2, 3]).add(1) });
  await expect(failing).rejects.toThrow(ShapeError);
  void session.run('last', { x: mx.array([1, 2]).add(1) });
  expect(await numbers((await session.run('read', {})).outputs.now)).toEqual([2, 3]);
});

test('a cache is written step by step, and read as far as it is written', async () => {
  const { method, parameters } = cachedAttention();
  const session = (await loaded({ step: method }, parameters)).session();
  const x = normal(9, [1, 16, 8]);
  const states = {
    keys: mx.zeros([1, 2, 16, 4]),
    values: mx.zeros([1, 2, 16, 4]),
  };
  let past = 0;
  for (const length of [5, 1, 1, 8, 1]) {
    const part = x.slice([0, past, 0], [1, past + length, 8]);
    const { outputs } = await session.run('step', { x: part, past });
    const eager = method.run({ x: part }, { past, T: length }, states);
    expect(await numbers(outputs.y)).toEqual(await numbers(eager.y));
    past += length;
  }
});

test('outputs stay what they are when a later call writes into the state', async () => {
  const shift: Method = {
    dimensions: { at: { min: 0, max: 3 } },
    inputs: { x: { dtype: 'float32', shape: [1] } },
    states: { kept: { dtype: 'float32', shape: [4] } },
    run: ({ x }, { at }, states) => {
      states.kept = mx.sliceUpdate(states.kept, x, [at], [at + 1]);
      return { all: states.kept, part: states.kept.slice([0], [2]) };
    },
  };
  const session = (await loaded({ shift })).session();
  const first = await session.run('shift', { x: mx.array([5]), at: 0 });
  await session.run('shift', { x: mx.array([7]), at: 0 });
  expect(await numbers(first.outputs.all)).toEqual([5, 0, 0, 0]);
  expect(await numbers(first.outputs.part)).toEqual([5, 0]);
});

test('a state never lies in the memory of an input', async () => {
  const take: Method = {
    inputs: { x: { dtype: 'float32', shape: [2] } },
    states: { kept: { dtype: 'float32', shape: [2] } },
    run: ({ x }, _, states) => {
      states.kept = x;
      return {};
    },
  };
  const write: Method = {
    ...take,
    run: ({ x }, _, states) => {
      states.kept = mx.sliceUpdate(states.kept, x.slice([0], [1]), [0], [1]);
      return {};
    },
  };
  const session = (await loaded({ take, write })).session();
  const x = mx.array([1, 2]);
  await session.run('take', { x });
  await session.run('write', { x: mx.array([9, 9]) });
  expect(await numbers(x)).toEqual([1, 2]);
});

test('a state that is read beside its update is refused', async () => {
  const stale: Method = {
    inputs: { x: { dtype: 'float32', shape: [1] } },
    states: { kept: { dtype: 'float32', shape: [4] } },
    run: ({ x }, _, states) => {
      const before = states.kept;
      states.kept = mx.sliceUpdate(before, x, [0], [1]);
      return { y: before.add(1) };
    },
  };
  await expect(loaded({ stale })).rejects.toThrow(ProgramError);
  await expect(loaded({ stale })).rejects.toThrow(
    /stale: a state is used beside .*sliceUpdate at .*run\.test\.ts:\d+.*use the updated state/,
  );
});

test('several traces of a method: the first that fits is run', async () => {
  const trace = (name: string, min: number, max: number): Method => ({
    dimensions: { T: { min, max } },
    inputs: { x: { dtype: 'float32', shape: ['T'] } },
    run: ({ x }) => ({ y: name === 'step' ? x.add(100) : x.add(200) }),
  });
  const session = (await loaded({ run: [trace('step', 1, 1), trace('prefill', 2, 9)] })).session();
  const first = async (size: number): Promise<number> =>
    (await numbers((await session.run('run', { x: mx.zeros([size]) })).outputs.y))[0];
  expect([await first(1), await first(2), await first(9)]).toEqual([100, 200, 200]);
  await expect(first(10)).rejects.toThrow(/the dimension T is 10, and has to lie between 2 and 9/);
});

test('errors of an instruction name it and its line', async () => {
  const table = normal(3, [5, 2]);
  const lookup: Method = {
    inputs: { ids: { dtype: 'int32', shape: [2] } },
    run: ({ ids }) => ({ y: table.take(ids, 0) }),
  };
  const session = (await loaded({ lookup }, { table })).session();
  const run = session.run('lookup', { ids: mx.array([0, 5], null, 'int32') });
  await expect(run).rejects.toThrow(
    /lookup, instruction 0 \(take at @mlx-runners\/program\/test\/run\.test\.ts:\d+\).* index 5 is outside/,
  );
});

test('a signal ends a call, and the session goes on', async () => {
  const long: Method = {
    inputs: { x: { dtype: 'float32', shape: [400, 400] } },
    run: ({ x }) => {
      let y = x;
      for (let i = 0; i < 300; i++) y = y.matmul(x).divide(400);
      return { y };
    },
  };
  const session = (await loaded({ long })).session();
  const x = mx.ones([400, 400]);
  await expect(session.run('long', { x }, { signal: AbortSignal.abort() })).rejects.toThrow(
    AbortedError,
  );
  await expect(session.run('long', { x }, { signal: AbortSignal.timeout(5) })).rejects.toThrow(
    AbortedError,
  );
  const short = session.run('long', { x }, { signal: new AbortController().signal });
  expect((await short).outputs.y.shape).toEqual([400, 400]);
});

test('parameters may be called like constants that have no name', async () => {
  const named = mx.array([3, 4]);
  const method: Method = {
    inputs: { x: { dtype: 'float32', shape: [2] } },
    run: ({ x }) => ({ y: x.add(named).multiply(mx.array([10, 20])) }),
  };
  for (const name of ['constant.0', 'constant.1']) {
    const session = (await loaded({ run: method }, { [name]: named })).session();
    const { outputs } = await session.run('run', { x: mx.zeros([2]) });
    expect(await numbers(outputs.y)).toEqual([30, 80]);
  }
});

test('packed weights whose scales are bytes', async () => {
  const parts = mx.quantize(normal(1, [8, 32]), 32, 4, 'mxfp4');
  const [codes, scales] = parts;
  const method: Method = {
    inputs: { x: { dtype: 'float16', shape: [2, 32] } },
    run: ({ x }) => ({ y: mx.linear(x, mx.dequantize(codes, scales, null, 32, 4, 'mxfp4')) }),
  };
  const session = (await loaded({ run: method }, { codes, scales })).session();
  const x = normal(2, [2, 32]).astype('float16');
  const { outputs } = await session.run('run', { x });
  const [actual, expected] = [outputs.y, method.run({ x }, {}, {}).y];
  expect(actual.dtype).toBe(expected.dtype);
  for (const [i, value] of (await numbers(expected)).entries()) {
    expect((await numbers(actual))[i]).toBeCloseTo(value, 1);
  }
});

test('a profile counts instructions and their bytes', async () => {
  const session = (await loaded({ rows }, { weight })).session();
  const { profile, outputs } = await session.run(
    'rows',
    { x: mx.zeros([2, 4]) },
    { profile: true },
  );
  const counts = Object.fromEntries(
    profile!.ops.map(({ op, count, bytes }) => [op, [count, bytes]]),
  );
  expect(counts).toMatchObject({
    linear: [1, 4 * (8 + 16 + 8)],
    softmax: [1, 64],
    add: [1, 64],
  });
  expect(profile!.seconds).toBeGreaterThan(0);
  expect(await numbers(outputs.z)).toEqual(Array(8).fill(2));
});

test('disposed sessions and models', async () => {
  const model = await loaded({ rows }, { weight });
  const session = model.session();
  model.dispose();
  await expect(session.run('rows', { x: mx.zeros([1, 4]) })).resolves.toBeDefined();
  session.dispose();
  await expect(session.run('rows', { x: mx.zeros([1, 4]) })).rejects.toThrow(DisposedError);
  expect(() => model.session()).toThrow(DisposedError);
});

test('a state that is set to a view has a buffer of its own', async () => {
  const state = { dtype: 'float32', shape: [4, 2] } as const;
  const set: Method = {
    inputs: { x: { dtype: 'float32', shape: [2] } },
    states: { s: state },
    run: ({ x }, _, states) => {
      states.s = x.sum().reshape([1, 1]).broadcastTo([4, 2]);
      return {};
    },
  };
  const update: Method = {
    inputs: { u: { dtype: 'float32', shape: [1, 2] } },
    states: { s: state },
    run: ({ u }, _, states) => ({ s: (states.s = mx.sliceUpdate(states.s, u, [1, 0], [2, 2])) }),
  };
  using model = await loaded({ set, update });
  using session = model.session();
  await session.run('set', { x: mx.array([1, 2]) });
  const { outputs } = await session.run('update', { u: mx.array([[7, 8]]) });
  expect(await numbers(outputs.s)).toEqual([3, 3, 7, 8, 3, 3, 3, 3]);
});

test('scores with booleans added to them are no masked scores', async () => {
  const shape = [1, 2, 3, 4];
  const mask = mx.array([true, false, true]);
  const method: Method = {
    inputs: { q: { dtype: 'float32', shape } },
    run: ({ q }) => {
      const scores = q.matmul(q.swapaxes(-1, -2)).multiply(0.5).add(mask);
      return { y: scores.softmax(-1).matmul(q) };
    },
  };
  using model = await loaded({ method });
  using session = model.session();
  const q = normal(5, shape);
  const { outputs } = await session.run('method', { q });
  await expectClose(outputs.y, method.run({ q }, {}, {}).y);
});

test('angles of one position for all rows are no rope', async () => {
  const frequencies = mx.array([1, 0.1]);
  const method: Method = {
    dimensions: { past: { min: 0, max: 99 } },
    inputs: { x: { dtype: 'float32', shape: [2, 3, 4] } },
    run: ({ x }, { past }) => {
      const angles = mx.outer(mx.arange(past, past + 1, 1, 'float32'), frequencies);
      const both = mx.concatenate([angles, angles], -1);
      const [first, second] = mx.split(x, 2, -1);
      const turned = mx.concatenate([second.negative(), first], -1);
      return { y: x.multiply(both.cos()).add(turned.multiply(both.sin())) };
    },
  };
  using model = await loaded({ method });
  using session = model.session();
  const x = normal(6, [2, 3, 4]);
  const { outputs } = await session.run('method', { x, past: 9 });
  await expectClose(outputs.y, method.run({ x }, { past: 9 }, {}).y);
});

async function expectClose(actual: MxArray, expected: MxArray): Promise<void> {
  const [found, wanted] = [await numbers(actual), await numbers(expected)];
  expect(found).toHaveLength(wanted.length);
  for (const [i, value] of found.entries()) expect(value).toBeCloseTo(wanted[i], 5);
}
