import { mx, ProgramError, type MxArray } from '@mlx-runners/mlx-core';
import { formatSize, traceMethod, type Method, type TracedMethod } from '@mlx-runners/program';
import { expect, test } from 'vitest';

const T = { T: { min: 1, max: 100 } };

/** A method of one input x [T, 4]. */
function onRows(run: (x: MxArray, size: number) => MxArray, dimensions = T): Method {
  return {
    dimensions,
    inputs: { x: { dtype: 'float32', shape: ['T', 4] } },
    run: ({ x }, sizes) => ({ y: run(x, sizes.T) }),
  };
}

function traced(run: (x: MxArray, size: number) => MxArray, dimensions = T): Promise<TracedMethod> {
  return traceMethod('method', onRows(run, dimensions));
}

/** Each instruction as `op(arguments) → shapes`. */
function listing({ graph }: TracedMethod): string[] {
  const shown = (value: unknown): string => {
    if (typeof value !== 'object' || value === null) return String(value);
    if ('size' in value) return formatSize(value.size as string);
    if ('list' in value) return `[${(value.list as string[]).map(formatSize).join(', ')}]`;
    return 'array' in value ? `%${value.array as number}` : '…';
  };
  return graph.instructions.map(({ op, args, results }) => {
    const types = results.map((value) => {
      const { dtype, shape } = graph.types.get(value)!;
      return `${dtype}[${shape.map(formatSize).join(', ')}]`;
    });
    return `${op}(${args.map(shown).join(', ')}) → ${types.join(', ')}`;
  });
}

test('calls are recorded with arguments, types and the line of the model', async () => {
  const { graph } = await traced((x) => x.add(1).softmax(-1));
  expect(graph.instructions).toEqual([
    {
      op: 'add',
      args: [{ array: 0 }, 1],
      results: [1],
      source: expect.stringMatching(/^@mlx-runners\/program\/test\/trace\.test\.ts:\d+$/) as string,
    },
    { op: 'softmax', args: [{ array: 1 }, -1], results: [2], source: expect.any(String) as string },
  ]);
  expect(graph.types.get(2)).toEqual({ dtype: 'float32', shape: ['T', 4] });
  expect(graph.outputs).toEqual([{ name: 'y', value: 2 }]);
});

test('nothing is computed, and only constants stay alive', async () => {
  const before = mx.memory();
  const method = onRows((x) =>
    x
      .sum()
      .add(mx.zeros([250, 1_000_000]))
      .sum(),
  );
  await traceMethod('method', method);
  expect(mx.memory().arrays).toBe(before.arrays);
  expect(mx.memory().active - before.active).toBeLessThan(1_000_000);
});

test('sizes that differ are fitted as expressions of the dimensions', async () => {
  const run = (x: MxArray, size: number): MxArray =>
    x
      .reshape([2, size * 2])
      .slice([0, 1], [2, size * 2])
      .flatten();
  expect(listing(await traced(run))).toEqual([
    'reshape(%0, [2, T * 2]) → float32[2, T * 2]',
    'slice(%1, [0, 1], [2, T * 2]) → float32[2, T * 2 - 1]',
    'flatten(%2) → float32[T * 4 - 2]',
  ]);
});

test('lengths after strided convolutions, one after another', async () => {
  const weight = mx.zeros([4, 3, 4]);
  const run = (x: MxArray): MxArray => {
    const once = x.reshape([1, -1, 4]).conv1d(weight, 2, 1);
    const twice = once.conv1d(weight, 2, 1);
    return twice.reshape([twice.shape[1], 2, 2]);
  };
  const lines = listing(await traced(run));
  expect(lines[1]).toContain('float32[1, (T + 1) // 2, 4]');
  expect(lines.at(-1)).toContain('2, 2]');
});

test('a host integer is a dimension that no shape has', async () => {
  const method: Method = {
    dimensions: { T: { min: 1, max: 8 }, past: { min: 0, max: 40 } },
    limits: [{ size: ['+', 'past', 'T'], max: 40 }],
    inputs: { x: { dtype: 'float32', shape: ['T', 4] } },
    run: ({ x }, { past }) => {
      const positions = mx.arange(past, past + x.shape[0], 1, 'int32');
      return { y: x.add(positions.reshape([-1, 1])) };
    },
  };
  const [line] = listing(await traceMethod('step', method));
  expect(line).toBe('arange(past, T + past, 1, int32) → int32[T]');
});

test('parameters are constants by their names, others by number', async () => {
  const weight = mx.ones([4]);
  const names = new Map([[weight, 'layer.weight']]);
  const method = onRows((x) => x.multiply(weight).add(mx.array([1, 2, 3, 4])));
  const { graph, constants } = await traceMethod('method', method, { names });
  expect(graph.constants.map(({ name }) => name)).toEqual(['layer.weight', 'constant.0']);
  expect(constants.get('layer.weight')!.array).toBe(weight);
  expect(constants.get('constant.0')!.array.shape).toEqual([4]);
});

test('states: what is assigned is the next value', async () => {
  const method: Method = {
    inputs: { x: { dtype: 'float32', shape: [2] } },
    states: { total: { dtype: 'float32', shape: [2] } },
    run: ({ x }, _, states) => {
      states.total = states.total.add(x);
      return { mean: states.total.divide(2) };
    },
  };
  const { graph } = await traceMethod('method', method);
  expect(graph.states).toEqual([{ name: 'total', value: 1, next: 2 }]);
});

// Traps: fitted right, or refused with op, argument and line.

const line = /trace\.test\.ts:\d+/;

test('T · T is fitted', async () => {
  expect(listing(await traced((x, size) => x.add(mx.zeros([size * size]).sum())))[0]).toBe(
    'zeros([T * T]) → float32[T * T]',
  );
});

test('1 / T is refused', async () => {
  const run = (x: MxArray, size: number): MxArray => x.multiply(1 / size);
  await expect(traced(run)).rejects.toThrow(ProgramError);
  await expect(traced(run)).rejects.toThrow(/multiply at .*: b is no whole-number expression/);
  await expect(traced(run)).rejects.toThrow(line);
});

test('a table built in JavaScript for each size is refused', async () => {
  const run = (x: MxArray, size: number): MxArray =>
    x.add(mx.array(Array.from({ length: size }, (_, i) => [i])));
  await expect(traced(run)).rejects.toThrow(
    /made in JavaScript and first used at .* has other values/,
  );
  await expect(traced(run)).rejects.toThrow(line);
});

test('a table that differs only in its values is refused', async () => {
  const run = (x: MxArray, size: number): MxArray => x.add(mx.array([size, 0, 0, 0]));
  await expect(traced(run)).rejects.toThrow(/has other values at T = 1 than at T = \d+/);
});

test('a number of results that changes is refused', async () => {
  const run = (x: MxArray, size: number): MxArray => x.split(size)[0];
  await expect(traced(run)).rejects.toThrow(
    /split at .*trace\.test\.ts:\d+, which gives 1;.* gives 2/,
  );
});

test('padding that is none at multiples is fitted', async () => {
  const run = (x: MxArray, size: number): MxArray => x.pad([0, (8 - (size % 8)) % 8, 0, 0]);
  const { graph } = await traced(run);
  const shape = graph.types.get(graph.outputs[0].value)!.shape;
  expect(formatSize(shape[0])).toBe('((T + 7) // 8) * 8');
});

test('a branch on a dimension is refused', async () => {
  const run = (x: MxArray, size: number): MxArray => (size > 4 ? x.exp() : x.sin());
  await expect(traced(run)).rejects.toThrow(
    /sin at .*trace\.test\.ts:\d+.* exp at .*trace\.test\.ts:\d+/,
  );
});

test('a branch that skips ops is refused', async () => {
  const run = (x: MxArray, size: number): MxArray => (size > 50 ? x : x.sin());
  await expect(traced(run)).rejects.toThrow(
    /sin at .*trace\.test\.ts:\d+.*nothing more is computed/,
  );
});

test('a branch in the middle of a wide range is found', async () => {
  const run = (x: MxArray, size: number): MxArray =>
    size > 128 && size <= 384 ? x.square() : x.negative();
  await expect(traced(run, { T: { min: 1, max: 512 } })).rejects.toThrow(ProgramError);
});

test('a branch that is one expression is fitted', async () => {
  const run = (x: MxArray, size: number): MxArray => x.add(mx.zeros([Math.max(size, 4), 1]).sum());
  expect(listing(await traced(run))[0]).toBe('zeros([max(T, 4), 1]) → float32[max(T, 4), 1]');
});

test('a dimension that is always a multiple may be divided', async () => {
  const dimensions = { T: { min: 8, max: 64, multipleOf: 8 } };
  const run = (x: MxArray, size: number): MxArray => x.reshape([size / 8, 32]);
  const [line] = listing(await traced(run, dimensions));
  expect(line).toBe('reshape(%0, [T // 8, 32]) → float32[T // 8, 32]');
});

test('what no expression gives is refused', async () => {
  const run = (x: MxArray, size: number): MxArray =>
    mx.zeros([Math.floor(Math.sqrt(size))]).add(x.sum());
  await expect(traced(run)).rejects.toThrow(
    /zeros at .*: shape\[0\] .* no expression of the dimensions/,
  );
});

const reads: [string, (x: MxArray) => unknown][] = [
  ['item()', (x) => x.sum().item()],
  ['itemSync()', (x) => x.sum().itemSync()],
  ['data()', (x) => x.data()],
  ['dataSync()', (x) => x.dataSync()],
  ['eval()', (x) => mx.eval(x)],
  ['evalSync()', (x) => mx.evalSync(x.add(1))],
];
test.each(reads)('%s inside a trace is refused', async (name, read) => {
  const run = (x: MxArray): MxArray => {
    read(x);
    return x;
  };
  await expect(traced(run)).rejects.toThrow(ProgramError);
  const message = name.replace('()', '\\(\\)');
  await expect(traced(run)).rejects.toThrow(new RegExp(`${message} at .*trace\\.test\\.ts:\\d+`));
  // A method that goes on regardless changes nothing.
  const caught = (x: MxArray): MxArray => {
    try {
      read(x);
    } catch {
      return x;
    }
    return x;
  };
  await expect(traced(caught)).rejects.toThrow(ProgramError);
});

test('values of constants may be read', async () => {
  const table = mx.array([3, 4]);
  expect(listing(await traced((x) => x.multiply(Number(table.dataSync()[1]))))[0]).toContain(
    'multiply(%0, 4)',
  );
});

test('promises are no methods', async () => {
  const asynchronous = (() => Promise.resolve({})) as unknown as Method['run'];
  await expect(traceMethod('method', { inputs: {}, run: asynchronous })).rejects.toThrow(
    /not a promise/,
  );
});

test('a promise of a method that reads values is refused once', async () => {
  const unhandled: unknown[] = [];
  const listen = (reason: unknown): void => void unhandled.push(reason);
  process.on('unhandledRejection', listen);
  const run = (async ({ x }) => ({ y: x.multiply(Number((await x.data())[0])) })) as (
    inputs: Record<string, MxArray>,
  ) => unknown;
  const method = { ...onRows((x) => x), run: run as Method['run'] };
  await expect(traceMethod('method', method)).rejects.toThrow(/data\(\) at/);
  await new Promise((resolve) => setTimeout(resolve, 20));
  process.off('unhandledRejection', listen);
  expect(unhandled).toEqual([]);
});

test.each<[string, (x: MxArray, calls: number) => MxArray, RegExp]>([
  ['number', (x, calls) => x.add(calls), /add at .*: b is another when the method is run again/],
  ['table', (x, calls) => x.add(mx.array([calls])), /has other values/],
  ['op', (x, calls) => (calls % 2 ? x.exp() : x.sin()), /run twice at \{\}: .*other things/],
])('a method that takes another %s each time is refused', async (_, compute, message) => {
  let calls = 0;
  const method: Method = {
    inputs: { x: { dtype: 'float32', shape: [2] } },
    run: ({ x }) => ({ y: compute(x, calls++) }),
  };
  await expect(traceMethod('method', method)).rejects.toThrow(message);
});

test('what nothing fits shows the first sizes, and the last that were tried', async () => {
  const run = (x: MxArray, size: number): MxArray =>
    x.add(mx.zeros([Math.floor(Math.sqrt(size)), 1]).sum());
  const pairs = '(\\d+ at T = \\d+; ){3}…(; \\d+ at T = \\d+){3}\\.';
  await expect(traced(run)).rejects.toThrow(new RegExp(pairs));
});

test('errors of the model name the size', async () => {
  const run = (x: MxArray): MxArray => x.reshape([3, -1]);
  await expect(traced(run)).rejects.toThrow(
    /method at \{"T":1\}, at .*trace\.test\.ts:\d+: reshape/,
  );
});

test('sizes that this machine has no memory for are left out', async () => {
  const squares = (x: MxArray, size: number): MxArray => x.sum().add(mx.zeros([size, size, 100]));
  const [line] = listing(await traced(squares, { T: { min: 1, max: 1_000_000 } }));
  expect(line).toBe('sum(%0) → float32[]');
});

test('dimensions that make no sense', async () => {
  const identity = (x: MxArray): MxArray => x;
  await expect(traced(identity, { T: { min: 4, max: 3 } })).rejects.toThrow(ProgramError);
  await expect(traced(identity, { T: { min: 1.5, max: 3 } })).rejects.toThrow(ProgramError);
  const undeclared = { ...onRows(identity), dimensions: {} };
  await expect(traceMethod('method', undeclared)).rejects.toThrow(/undeclared dimension T/);
});
