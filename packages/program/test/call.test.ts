import { mx, ShapeError, UsageError } from '@mlx-runners/mlx-core';
import { DisposedError } from '@mlx-runners/mlx-core/errors';
import type { Arrays, Method, Session } from '@mlx-runners/program';
import { expect, test } from 'vitest';
import { cachedAttention, loaded, normal, numbers } from './models.js';

const weight = normal(1, [4, 4]);

const rows: Method = {
  dimensions: { T: { min: 1, max: 100 } },
  inputs: { x: { dtype: 'float32', shape: ['T', 4] } },
  run: ({ x }) => ({ y: mx.linear(x, weight) }),
};

const { method: step, parameters } = cachedAttention();

async function session(): Promise<Session> {
  return (await loaded({ rows, step }, { weight, ...parameters })).session();
}

/** Calls with anything, as JavaScript may. */
async function expectRefusal(
  of: Session,
  [method, inputs, options]: unknown[],
  type: new (...all: never[]) => Error,
  message: string | RegExp,
): Promise<void> {
  const call = (): Promise<unknown> =>
    of.run(method as string, inputs as Arrays, options as object);
  await expect(call()).rejects.toThrow(type);
  await expect(call()).rejects.toThrow(message);
}

test('methods that there are not', async () => {
  const called = await session();
  const refused: [unknown, string][] = [
    ['row', 'There is no method "row": did you mean rows?'],
    ['encode', 'There is no method "encode": there are rows, step.'],
    ['toString', 'There is no method "toString": there are rows, step.'],
    [undefined, 'There is no method nothing: there are rows, step.'],
    [{}, 'There is no method an object: there are rows, step.'],
    [Symbol('rows'), 'There is no method a symbol: there are rows, step.'],
  ];
  for (const [method, message] of refused) {
    await expectRefusal(called, [method, {}], UsageError, message);
  }
});

test('inputs that are no object of arrays', async () => {
  const called = await session();
  const x = mx.zeros([3, 4]);
  const refused: [unknown, string | RegExp][] = [
    [undefined, 'rows takes an object of arrays and dimensions by name, not nothing.'],
    [null, 'rows takes an object of arrays and dimensions by name, not null.'],
    ['x', 'rows takes an object of arrays and dimensions by name, not "x".'],
    [[x], 'rows takes an object of arrays and dimensions by name, not a list of 1.'],
    [x, 'rows takes an object of arrays and dimensions by name, not one array.'],
    [{}, 'rows needs the array x.'],
    [new Map([['x', x]]), 'rows needs the array x.'],
    [{ x: null }, 'rows: x has to be an MxArray, not null.'],
    [{ x: 3 }, 'rows: x has to be an MxArray, not 3.'],
    [{ x: 'a' }, 'rows: x has to be an MxArray, not "a".'],
    [{ x: [1, 2] }, 'rows: x has to be an MxArray, not a list of 2.'],
    [{ x: new Float32Array(4) }, 'rows: x has to be an MxArray, not an object.'],
    [{ x, y: x }, 'rows takes x, and no "y".'],
    [{ x, ['a'.repeat(1e6)]: x }, /^rows takes x, and no "a{60}…"\.$/],
  ];
  for (const [inputs, message] of refused) {
    await expectRefusal(called, ['rows', inputs], UsageError, message);
  }
  const disposed = mx.zeros([3, 4]);
  disposed.dispose();
  await expectRefusal(called, ['rows', { x: disposed }], DisposedError, 'rows: x was disposed.');
  // The session goes on.
  expect((await called.run('rows', { x })).outputs.y.shape).toEqual([3, 4]);
});

test('inputs of other shapes and dtypes', async () => {
  const called = await session();
  const refused: [unknown, RegExp][] = [
    [mx.zeros([3, 5]), /x is float32\[3, 5\], and has to be float32\[3, 4\]/],
    [mx.zeros([3, 4], 'int32'), /x is int32\[3, 4\], and has to be float32 with 2 axes/],
    [mx.zeros([101, 4]), /the dimension T is 101, and has to lie between 1 and 100/],
  ];
  for (const [x, message] of refused) {
    await expectRefusal(called, ['rows', { x }], ShapeError, message);
  }
});

test('dimensions of other kinds and sizes', async () => {
  const called = await session();
  const x = mx.zeros([1, 8, 8]);
  const what = 'a whole number from 0 to 15';
  await expectRefusal(
    called,
    ['step', { x }],
    UsageError,
    `step needs the dimension past: ${what}.`,
  );
  const kinds: [unknown, string][] = [
    ['3', '"3"'],
    [null, 'null'],
    [3n, '3'],
    [[3], 'a list of 1'],
    [mx.array(3), 'an array'],
  ];
  for (const [past, shown] of kinds) {
    const message = `step: past has to be ${what}, not ${shown}.`;
    await expectRefusal(called, ['step', { x, past }], UsageError, message);
  }
  for (const past of [3.5, NaN, -1, 16, Infinity, 2 ** 32]) {
    const message = `step: past has to be ${what}, not ${past}.`;
    await expectRefusal(called, ['step', { x, past }], ShapeError, message);
  }
  await expectRefusal(
    called,
    ['step', { x, past: 9 }],
    ShapeError,
    /past \+ T is 17|T \+ past is 17/,
  );
});

test('a dimension that an input has is not given, not even rightly', async () => {
  const called = await session();
  const x = mx.zeros([3, 4]);
  const message = 'rows has the dimension T from its inputs: leave it out.';
  await expectRefusal(called, ['rows', { x, T: 3 }], UsageError, message);
  await expectRefusal(called, ['rows', { x, T: 4 }], UsageError, message);
});

test('a dimension that the inputs of some traces have may be given', async () => {
  const trace = (shape: (number | string)[], min: number, max: number): Method => ({
    dimensions: { T: { min, max } },
    inputs: { x: { dtype: 'float32', shape } },
    run: ({ x }, { T }) => ({ y: x.add(T) }),
  });
  const called = (await loaded({ run: [trace([1], 1, 1), trace(['T'], 2, 9)] })).session();
  const one = await called.run('run', { x: mx.array([1]), T: 1 });
  expect(await numbers(one.outputs.y)).toEqual([2]);
  const two = await called.run('run', { x: mx.array([1, 1]) });
  expect(await numbers(two.outputs.y)).toEqual([3, 3]);
  await expectRefusal(called, ['run', { x: mx.array([1, 1]), T: 10 }], ShapeError, /from 1 to 9/);
});

test('multiples', async () => {
  const windows: Method = {
    dimensions: { n: { min: 4, max: 64, multipleOf: 4 } },
    inputs: { x: { dtype: 'float32', shape: [1] } },
    run: ({ x }, { n }) => ({ y: x.tile([n]).reshape([-1, 4]) }),
  };
  const called = (await loaded({ windows })).session();
  const x = mx.zeros([1]);
  const message = 'windows: n has to be a multiple of 4 from 4 to 64, not 6.';
  await expectRefusal(called, ['windows', { x, n: 6 }], ShapeError, message);
  expect((await called.run('windows', { x, n: 8 })).outputs.y.shape).toEqual([2, 4]);
});

test('options that there are not, or of other kinds', async () => {
  const called = await session();
  const x = mx.zeros([3, 4]);
  const refused: [unknown, string | RegExp][] = [
    [{ profil: true }, 'run() has no option profil: did you mean profile?'],
    [{ profile: 'yes' }, "profile must be true or false, not 'yes'."],
    [{ signal: {} }, 'signal must be an AbortSignal, not {}.'],
    [{ signal: new AbortController() }, /^signal must be an AbortSignal, not AbortController/],
    [null, 'The options of run() must be an object, not null.'],
    ['fast', "The options of run() must be an object, not 'fast'."],
  ];
  for (const [options, message] of refused) {
    await expectRefusal(called, ['rows', { x }, options], UsageError, message);
  }
  const options = { signal: undefined, profile: false };
  expect((await called.run('rows', { x }, options)).profile).toBeUndefined();
});
