/** Where a program may write into a state in place, and where it is refused since it would read what is gone. */
import { mx, ProgramError, type MxArray } from '@mlx-runners/mlx-core';
import type { Arrays, Method } from '@mlx-runners/program';
import { describe, expect, test } from 'vitest';
import { loaded, numbers } from './models.js';

const state = { dtype: 'float32', shape: [4, 2] } as const;

/** A method of x [1, 2], and states a and b [4, 2]. */
function method(run: (x: MxArray, states: Arrays) => Arrays): Method {
  return {
    inputs: { x: { dtype: 'float32', shape: [1, 2] } },
    states: { a: state, b: state },
    run: ({ x }, _, states) => run(x, states),
  };
}

const updated = (target: MxArray, value: MxArray, row = 0): MxArray =>
  mx.sliceUpdate(target, value, [row, 0], [row + value.shape[0], 2]);

describe('what holds a state from before its update is refused', () => {
  const views: Record<string, (a: MxArray) => MxArray> = {
    'the state': (a) => a,
    reshape: (a) => a.reshape([8]),
    transpose: (a) => a.transpose([1, 0]),
    slice: (a) => a.slice([1, 0], [2, 2]),
    asStrided: (a) => a.asStrided([3], [2]),
    broadcastTo: (a) => a.broadcastTo([2, 4, 2]),
    split: (a) => a.split(2, 0)[1],
    'a view of a view': (a) => a.transpose([1, 0]).slice([0, 1], [2, 3]),
  };
  const reads: Record<string, (seen: MxArray, x: MxArray, states: Arrays) => Arrays> = {
    'as an output': (seen, x, states) => {
      states.a = updated(states.a, x);
      return { seen };
    },
    'by what comes after': (seen, x, states) => {
      states.a = updated(states.a, x);
      return { sum: seen.sum().add(states.a.sum()) };
    },
    'as the other state': (seen, x, states) => {
      states.a = updated(states.a, x);
      if (seen.size === 8) states.b = seen.reshape([4, 2]);
      return { seen: seen.add(1) };
    },
  };
  for (const [view, of] of Object.entries(views)) {
    test.each(Object.entries(reads))(`${view}, read %s`, async (_, read) => {
      const stale = loaded({ stale: method((x, states) => read(of(states.a), x, states)) });
      await expect(stale).rejects.toThrow(ProgramError);
      await expect(stale).rejects.toThrow(
        /stale: a state is used beside .*sliceUpdate at .*state-updates\.test\.ts:\d+/,
      );
    });
  }

  test('an earlier update, beside the next', async () => {
    const stale = method((x, states) => {
      const once = updated(states.a, x);
      states.a = updated(once, x, 2);
      return { once };
    });
    await expect(loaded({ stale })).rejects.toThrow(/a state is used beside/);
  });

  test('the state itself as the value that is written', async () => {
    const stale = method((_, states) => {
      states.a = updated(states.a, states.a.slice([0, 0], [1, 2]), 3);
      return {};
    });
    await expect(loaded({ stale })).rejects.toThrow(/a state is used beside/);
  });
});

/** What the method gives and its states are after two calls, with x = 1 2 and then 3 4. */
async function twice(run: (x: MxArray, states: Arrays) => Arrays): Promise<number[][]> {
  const read = method((_, { a, b }) => ({ a, b }));
  using model = await loaded({ run: method(run), read });
  using session = model.session();
  const inputs = [mx.array([[1, 2]]), mx.array([[3, 4]])];
  const calls = inputs.map((x) => session.run('run', { x }));
  const { outputs } = await session.run('read', { x: inputs[0] });
  const made = await Promise.all(calls.map(async (call) => (await call).outputs));
  const all = [...made.flatMap((each) => Object.values(each)), outputs.a, outputs.b];
  return await Promise.all(all.map(numbers));
}

const zeros = [0, 0, 0, 0, 0, 0, 0, 0];

describe('what is right is not refused', () => {
  test('two updates one after another', async () => {
    const found = await twice((x, states) => {
      states.a = updated(updated(states.a, x), x.add(1), 2);
      return { a: states.a };
    });
    const [first, last] = [
      [1, 2, 0, 0, 2, 3, 0, 0],
      [3, 4, 0, 0, 4, 5, 0, 0],
    ];
    expect(found).toEqual([first, last, last, zeros]);
  });

  test('an update of a view, beside the state: a copy', async () => {
    const found = await twice((x, states) => {
      const turned = mx.sliceUpdate(states.a.reshape([8]), x.reshape([2]), [6], [8]);
      const before = states.a.sum();
      states.a = turned.reshape([4, 2]);
      return { before };
    });
    expect(found).toEqual([[0], [3], [0, 0, 0, 0, 0, 0, 3, 4], zeros]);
  });

  test('a state that another becomes, and both updated in the next call', async () => {
    const found = await twice((x, states) => {
      states.a = updated(states.a, x);
      states.b = updated(states.b, x.negative(), 3);
      [states.a, states.b] = [states.b, states.a];
      return {};
    });
    // Of the second call's states, a has been b.
    expect(found).toEqual([
      [1, 2, 0, 0, 0, 0, -3, -4],
      [3, 4, 0, 0, 0, 0, -1, -2],
    ]);
  });

  test('one result as two states, which then differ', async () => {
    const found = await twice((x, states) => {
      const both = states.a.add(x);
      [states.a, states.b] = [both, both];
      return { both };
    });
    const sums = [4, 6, 4, 6, 4, 6, 4, 6];
    expect(found.slice(1)).toEqual([sums, sums, sums]);
  });

  test('a state written to a part of the other', async () => {
    const found = await twice((x, states) => {
      states.b = updated(states.b, states.a.slice([0, 0], [2, 2]), 1);
      states.a = states.a.add(x);
      return { b: states.b };
    });
    expect(found).toEqual([
      zeros,
      [0, 0, 1, 2, 1, 2, 0, 0],
      [4, 6, 4, 6, 4, 6, 4, 6],
      [0, 0, 1, 2, 1, 2, 0, 0],
    ]);
  });

  test('states of no elements', async () => {
    const empty: Method = {
      inputs: { x: { dtype: 'float32', shape: [1, 2] } },
      states: { none: { dtype: 'float32', shape: [0, 2] } },
      run: ({ x }, _, states) => {
        states.none = mx.sliceUpdate(states.none, x.slice([0, 0], [0, 2]), [0, 0], [0, 2]);
        return { y: mx.concatenate([states.none, x], 0) };
      },
    };
    using model = await loaded({ empty });
    using session = model.session();
    const call = (): Promise<{ outputs: Arrays }> =>
      session.run('empty', { x: mx.array([[5, 6]]) });
    const both = await Promise.all([call(), call()]);
    for (const { outputs } of both) expect(await numbers(outputs.y)).toEqual([5, 6]);
  });
});
