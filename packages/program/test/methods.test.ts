/** What a model may say of its methods, and what becomes of its mistakes. */
import { mx, ProgramError, type MxArray } from '@mlx-runners/mlx-core';
import { traceMethod, type Method, type Sizes, type TraceOptions } from '@mlx-runners/program';
import { expect, test } from 'vitest';
import { exported } from './models.js';

const x = { dtype: 'float32', shape: ['T', 4] } as const;
const identity: Method = {
  dimensions: { T: { min: 1, max: 100 } },
  inputs: { x },
  run: (inputs) => ({ y: inputs.x }),
};

async function refusal(method: unknown, options?: TraceOptions): Promise<string> {
  const before = mx.memory().arrays;
  const error: unknown = await traceMethod('step', method as Method, options).catch(
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(ProgramError);
  expect(mx.memory().arrays).toBe(before);
  return (error as Error).message;
}

const dimension = (T: unknown): unknown => ({ ...identity, dimensions: { T } });
const input = (given: unknown): unknown => ({ ...identity, inputs: { x: given } });
const state = (given: unknown): unknown => ({ ...identity, states: { total: given } });

const descriptions: [string, unknown, RegExp][] = [
  ['nothing', null, /^step: it has to be a method: \{ .*run \}/],
  ['run is missing', { ...identity, run: undefined }, /step: run has to be a function/],
  ['run is none', { ...identity, run: 'forward' }, /step: run has to be a function/],
  ['no inputs', { ...identity, inputs: undefined }, /inputs has to be an object of inputs by name/],
  ['no dtype', input({ shape: [2] }), /inputs\.x\.dtype has to be a dtype .*, not nothing/],
  ['no shape', input({ dtype: 'int32' }), /inputs\.x\.shape has to be a list of sizes/],
  ['a dtype', input({ ...x, dtype: 'flaot32' }), /such as float32, not "flaot32"/],
  ['a negative size', input({ ...x, shape: [-1] }), /inputs\.x\.shape\.0 has to be a whole number/],
  ['half a size', input({ ...x, shape: [1.5] }), /inputs\.x\.shape\.0 has to be a whole number/],
  [
    'a huge size',
    input({ ...x, shape: [2 ** 31] }),
    /inputs\.x\.shape\.0 has to be a whole number/,
  ],
  ['half a min', dimension({ min: 0.5, max: 2 }), /dimensions\.T\.min has to be a whole number/],
  ['no max', dimension({ min: 1 }), /dimensions\.T\.max has to be a whole number/],
  ['min over max', dimension({ min: 3, max: 2 }), /T has to have min ≤ max, not 3 and 2/],
  ['no multiple', dimension({ min: 9, max: 15, multipleOf: 8 }), /no multiple of 8 lies between/],
  [
    'multipleof',
    dimension({ min: 8, max: 16, multipleof: 8 }),
    /dimensions\.T has no "multipleof": is it multipleOf\?/,
  ],
  ['dimension', { ...identity, dimension: {} }, /it has no "dimension": is it dimensions\?/],
  ['a state that follows T', state(x), /states\.total\.shape\.0 has to be a whole number/],
  [
    'an undeclared dimension',
    input({ ...x, shape: ['t', 4] }),
    /the input x has the undeclared dimension t/,
  ],
  [
    'an undeclared dimension in a limit',
    { ...identity, limits: [{ size: ['+', 'T', 'pats'], max: 3 }] },
    /a limit has the undeclared dimension pats/,
  ],
  [
    'a limit that is no size',
    { ...identity, limits: [{ size: ['-', 'T', 1], max: 3 }] },
    /limits\.0\.size has to be a size/,
  ],
  [
    'a dimension called as an input',
    { ...identity, inputs: { T: x } },
    /T is a dimension and an input/,
  ],
  [
    'limits that nothing fits',
    { ...identity, limits: [{ size: 'T', max: 0 }] },
    /no sizes fit its dimensions and limits/,
  ],
];
test.each(descriptions)('a description is refused: %s', async (_, method, message) => {
  expect(await refusal(method)).toMatch(message);
});

test.each(['constructor', 'toString', '__proto__', 'hasOwnProperty', 'a b', '1st', '', 'x\n'])(
  'nothing can be called %j',
  async (name) => {
    const named = (value: unknown): unknown => Object.fromEntries([[name, value]]);
    const T = { min: 1, max: 3 };
    const fixed = { dtype: 'float32', shape: [2] };
    const methods = [
      { ...identity, dimensions: { ...identity.dimensions, ...(named(T) as object) } },
      { ...identity, dimensions: named(T), inputs: {} },
      { ...identity, inputs: named(x) },
      { ...identity, states: named(fixed) },
      { ...identity, run: (inputs: { x: MxArray }) => named(inputs.x) },
    ];
    // A spread sets no prototype: what is own stays own.
    for (const method of methods) {
      expect(await refusal(method)).toContain("can't be called");
    }
  },
);

const steps: [string, Method['run'], RegExp][] = [
  ['a list', (({ x: y }: { x: MxArray }) => [y]) as never, /an object of arrays, not/],
  ['nothing', (() => undefined) as never, /an object of arrays, not/],
  ['a number', (() => ({ y: 3 })) as never, /The output y has to be an MxArray, not 3/],
  ['a function', (() => ({ y: () => 3 })) as never, /The output y .* not a function/],
  ['nested', (({ x: y }: { x: MxArray }) => ({ y: { y } })) as never, /The output y .* an object/],
];
test.each(steps)('outputs are refused: %s', async (_, run, message) => {
  expect(await refusal({ ...identity, run })).toMatch(message);
});

const assignments: [string, (states: Record<string, MxArray>, y: MxArray) => void, RegExp][] = [
  [
    'an undeclared one',
    (states, y) => (states.totla = y),
    /does not declare: "totla"\. Is it "total"\?/,
  ],
  ['deleted', (states) => delete states.total, /deletes the state total/],
  [
    'a number',
    (states) => (states.total = 3 as never),
    /The state total has to be an MxArray, not 3/,
  ],
  [
    'another shape',
    (states, y) => (states.total = y),
    /The state total is declared as float32 \[4\], and is given float32 \[1, 4\]/,
  ],
  [
    'another dtype',
    (states) => (states.total = states.total.astype('float16')),
    /declared as float32 \[4\], and is given float16 \[4\]/,
  ],
];
test.each(assignments)('states are refused: %s', async (_, assign, message) => {
  const method: Method = {
    ...identity,
    states: { total: { dtype: 'float32', shape: [4] } },
    run: (inputs, _sizes, states) => {
      assign(states, inputs.x);
      return { y: inputs.x };
    },
  };
  expect(await refusal(method)).toMatch(message);
});

test('the traces of a method take and give the same', async () => {
  const one = { ...identity, dimensions: { T: { min: 1, max: 1 } } };
  const fixed = { dtype: 'float32', shape: [2] } as const;
  const others: [Method, RegExp][] = [
    [
      { ...identity, inputs: { z: x }, run: ({ z }) => ({ y: z }) },
      /\(x: float32\).*\(z: float32\)/,
    ],
    [
      { ...identity, inputs: { x: { ...x, dtype: 'int32' } } },
      /the first has .*\(x: float32\).*; number 2 has .*\(x: int32\)/,
    ],
    [{ ...identity, dimensions: { ...identity.dimensions, P: { min: 1, max: 2 } } }, /\(T, P\)/],
    [{ ...identity, states: { total: fixed } }, /states none.*states \(total: float32\)/],
    [{ ...identity, run: (inputs) => ({ z: inputs.x }) }, /\(y: float32\).*\(z: float32\)/],
    [{ ...identity, run: (inputs) => ({ y: inputs.x.astype('int32') }) }, /outputs \(y: int32\)/],
  ];
  for (const [other, message] of others) {
    await expect(exported({ step: [one, other] })).rejects.toThrow(ProgramError);
    await expect(exported({ step: [one, other] })).rejects.toThrow(message);
  }
  await expect(exported({ step: [] })).rejects.toThrow(/step: it has no traces/);
});

test.each([1, 8])('what the model throws at T = %d stays what it is', async (bad) => {
  const thrown = new RangeError('no such layer', { cause: new Error('the reason') });
  const method: Method = {
    ...identity,
    run: (inputs, { T }) => {
      if (T === bad) throw thrown;
      return { y: inputs.x };
    },
  };
  const before = mx.memory().arrays;
  await expect(traceMethod('step', method)).rejects.toBe(thrown);
  expect(mx.memory().arrays).toBe(before);
  expect(thrown.message).toBe('no such layer');
  const { cause } = thrown.cause as Error;
  expect((cause as Error).message).toContain(`step at {"T":${bad}}`);
});

test('what is thrown that is no error is named', async () => {
  const run = (): never => {
    // eslint-disable-next-line @typescript-eslint/only-throw-error -- as a model might
    throw 'a text';
  };
  expect(await refusal({ ...identity, run })).toContain('step at {"T":1}');
});

const table = (size = 4): MxArray => mx.array(new Float32Array(size), [size]);

test('constants of the first trace are all that stays alive', async () => {
  const before = mx.memory().arrays;
  const run: Method['run'] = (inputs) => ({ y: mx.tidy(() => inputs.x.add(table())).add(table()) });
  const { constants } = await traceMethod('step', { ...identity, run });
  expect(constants.size).toBe(2);
  expect(mx.memory().arrays).toBe(before + 2);
  for (const { array } of constants.values()) array.dispose();
  expect(mx.memory().arrays).toBe(before);
});

test('a table that JavaScript makes is held once, however many traces there are', async () => {
  const bytes = 4 << 20;
  const run: Method['run'] = (inputs) => ({ y: inputs.x.sum().add(table(bytes / 4)) });
  mx.clearCache();
  const before = mx.memory().active;
  mx.resetPeakMemory();
  const { constants } = await traceMethod('step', { ...identity, run });
  expect(mx.memory().peak - before).toBeLessThan(3 * bytes);
  for (const { array } of constants.values()) array.dispose();
});

test('nothing stays alive after refusals and aborts', async () => {
  const different: Method['run'] = (inputs, { T }) => ({ y: inputs.x.add(mx.array([T])) });
  await refusal({ ...identity, run: different });
  const unfitted: Method['run'] = (inputs, { T }) => ({ y: inputs.x.add(table()).multiply(1 / T) });
  await refusal({ ...identity, run: unfitted });
  const branch: Method['run'] = (inputs, { T }) => ({
    y: T > 50 ? inputs.x.add(table()) : inputs.x.subtract(table()),
  });
  await refusal({ ...identity, run: branch });

  const before = mx.memory().arrays;
  const controller = new AbortController();
  const aborting: Method['run'] = (inputs, { T }) => {
    if (T > 3) controller.abort();
    return { y: inputs.x.add(table()) };
  };
  const { signal } = controller;
  await expect(traceMethod('step', { ...identity, run: aborting }, { signal })).rejects.toThrow(
    /aborted/,
  );
  expect(mx.memory().arrays).toBe(before);
});

test('constants that the model holds survive refusals', async () => {
  const held = table();
  const run: Method['run'] = (inputs, { T }) => ({ y: inputs.x.add(held).multiply(1 / T) });
  await refusal({ ...identity, run });
  expect(await held.data()).toHaveLength(4);
  held.dispose();
});

const capacity = 448;
const tight: [string, Method['limits']][] = [
  ['a sum', [{ size: ['+', 'past', 'T'], max: capacity }]],
  ['a product', [{ size: ['*', 'past', 'T'], max: 1000 }]],
  ['an order', [{ size: ['+', 'past', ['*', 'T', -1]], max: 0 }]],
  [
    'a band',
    [
      { size: ['+', 'past', ['*', 'T', -1]], max: 2 },
      { size: ['+', 'T', ['*', 'past', -1]], max: 2 },
    ],
  ],
];
test.each(tight)('as many sizes are traced however tight limits are: %s', async (_, limits) => {
  const seen = new Map<string, Sizes>();
  const method: Method = {
    dimensions: { T: { min: 1, max: capacity }, past: { min: 0, max: capacity - 1 } },
    limits,
    inputs: { x },
    run: (inputs, sizes) => {
      seen.set(JSON.stringify(sizes), sizes);
      return { y: inputs.x };
    },
  };
  await traceMethod('step', method);
  expect(seen.size).toBeGreaterThan(25);
  const [T, past] = [
    [...seen.values()].map((each) => each.T),
    [...seen.values()].map((s) => s.past),
  ];
  expect(new Set(T).size).toBeGreaterThan(12);
  expect(new Set(past).size).toBeGreaterThan(12);
  expect(Math.max(...T)).toBe(capacity);
  expect(Math.max(...past)).toBe(capacity - 1);
});

test('all sizes are traced when they are few', async () => {
  const seen = new Set<number>();
  const method: Method = {
    ...identity,
    dimensions: { T: { min: 8, max: 248, multipleOf: 8 } },
    run: (inputs, { T }) => {
      seen.add(T);
      return { y: T === 136 ? inputs.x.exp() : inputs.x.sin() };
    },
  };
  expect(await refusal(method)).toMatch(/exp at .*sin at|sin at .*exp at/);
  expect(seen).toContain(136);
});

test('a branch at a size that the graph has elsewhere is found', async () => {
  const method: Method = {
    dimensions: { T: { min: 1, max: 100_000 } },
    inputs: { x: { dtype: 'float32', shape: ['T', 3001] } },
    run: (inputs, { T }) => ({ y: T === 3000 ? inputs.x.exp() : inputs.x.sin() }),
  };
  expect(await refusal(method)).toMatch(/exp at .*methods\.test\.ts/);
});
