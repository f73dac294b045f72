import { mx, UsageError, type MxArray } from '@mlx-runners/mlx-core';
import { beforeEach, describe, expect, test } from 'vitest';
import { expectArray } from './expectations.js';

let before = 0;
beforeEach(() => {
  before = mx.memory().arrays;
});
/** How many arrays live now that didn't when the test began. */
const live = () => mx.memory().arrays - before;

describe('tidy', () => {
  test('frees what was made, except the result', () => {
    const result = mx.tidy(() => mx.array([1, 2]).add(1).multiply(2));
    expect(live()).toBe(1);
    expectArray(result, [4, 6]);
    result.dispose();
    expect(live()).toBe(0);
  });

  test('finds results in objects, lists, maps and sets, however deep', () => {
    const circular: Record<string, unknown> = {};
    const result = mx.tidy(() => {
      mx.array([0]);
      circular.self = circular;
      circular.inner = { list: [mx.array([1]), new Map([['k', mx.array([2])]])] };
      return {
        circular,
        set: new Set([mx.array([3])]),
        bytes: Buffer.alloc(4),
        text: 'x',
        no: null,
      };
    });
    expect(live()).toBe(3);
    const inner = circular.inner as { list: [MxArray, Map<string, MxArray>] };
    const survivors = [inner.list[0], inner.list[1].get('k')!, ...result.set];
    expect(survivors.map((x) => x.itemSync())).toEqual([1, 2, 3]);
    survivors.forEach((x) => x.dispose());
    expect(live()).toBe(0);
  });

  test('finds arrays that are fields of class instances', () => {
    class Cache {
      readonly keys: MxArray;
      constructor(keys: MxArray) {
        this.keys = keys;
      }
    }
    const cache = mx.tidy(() => new Cache(mx.array([1])));
    expectArray(cache.keys, [1]);
    cache.keys.dispose();
  });

  test('gives results of an inner scope to the outer one', () => {
    const outer = mx.tidy(() => {
      const inner = mx.tidy(() => mx.array([1]).add(1));
      expect(live()).toBe(1);
      return inner.add(1);
    });
    expect(live()).toBe(1);
    expectArray(outer, [3]);
    outer.dispose();
  });

  test('an exception frees everything, in all scopes it crosses', () => {
    expect(() =>
      mx.tidy(() => {
        mx.array([1]);
        mx.tidy(() => {
          mx.array([2]);
          throw new RangeError('on purpose');
        });
      }),
    ).toThrow(new RangeError('on purpose'));
    expect(live()).toBe(0);
    // The scopes are gone too: what is made now belongs to nobody else.
    const x = mx.array([1]);
    expect(live()).toBe(1);
    x.dispose();
  });

  test('an error of an op frees everything', () => {
    expect(() => mx.tidy(() => mx.matmul(mx.zeros([2, 3]), mx.zeros([2, 3])))).toThrow();
    expect(live()).toBe(0);
  });

  test('refuses promises and frees what was made for them', async () => {
    expect(() =>
      mx.tidy(async () => {
        const x = mx.array([1]);
        await Promise.resolve();
        // Freed by now: the rejection must not go unhandled on top of the UsageError.
        return x.add(1);
      }),
    ).toThrow(UsageError);
    expect(() => mx.tidy(() => ({ then: () => undefined }))).toThrow(UsageError);
    expect(live()).toBe(0);
    await new Promise((resolve) => setImmediate(resolve));
  });

  test('what is freed can’t be used any more', () => {
    let leaked: MxArray | undefined;
    mx.tidy(() => {
      leaked = mx.array([1]);
    });
    expect(leaked!.disposed).toBe(true);
    expect(() => leaked!.add(1)).toThrow('add: a was disposed');
  });

  test('leaves arrays alone that were there before', () => {
    const x = mx.array([1]);
    mx.tidy(() => void x.add(1));
    expectArray(x, [1]);
    expect(mx.tidy(() => x)).toBe(x);
    expectArray(x, [1]);
    x.dispose();
  });

  test('dispose inside works, in any scope', () => {
    mx.tidy(() => {
      const outer = mx.array([1]);
      mx.tidy(() => {
        outer.dispose();
        mx.array([2]).dispose();
        expect(live()).toBe(0);
      });
    });
    expect(live()).toBe(0);
  });

  test('a result may be disposed, or come twice', () => {
    const [a, b] = mx.tidy(() => {
      const x = mx.array([1]);
      const gone = mx.array([2]);
      gone.dispose();
      return [x, x, gone];
    });
    expect(a).toBe(b);
    expect(live()).toBe(1);
    a.dispose();
  });

  test('results of one op that gives several are freed one by one', () => {
    const last = mx.tidy(() => mx.split(mx.array([1, 2, 3]), 3)[2]);
    expect(live()).toBe(1);
    expectArray(last, [3]);
    last.dispose();
  });
});

describe('keep', () => {
  test('takes an array out of every scope', () => {
    let kept: MxArray | undefined;
    mx.tidy(() => {
      mx.tidy(() => {
        kept = mx.keep(mx.array([1]).add(1));
        expect(mx.keep(kept)).toBe(kept);
      });
      expect(live()).toBe(1);
    });
    expect(live()).toBe(1);
    expectArray(kept!, [2]);
    kept!.dispose();
    expect(live()).toBe(0);
  });

  test('works for an array of an outer scope, and one that is returned', () => {
    const [a, b] = mx.tidy(() => {
      const outer = mx.array([1]);
      const result = mx.tidy(() => {
        mx.keep(outer);
        return mx.keep(mx.array([2]));
      });
      return [outer, result];
    });
    expect(live()).toBe(2);
    a.dispose();
    b.dispose();
  });

  test('outside of scopes it changes nothing', () => {
    const x = mx.keep(mx.array([1]));
    expect(live()).toBe(1);
    x.dispose();
  });
});

test('the number of arrays stays the same over 200 steps of decoding', async () => {
  const weight = mx.tidy(() => mx.randomNormal(mx.randomKey(1), [16, 16]));
  let state = mx.zeros([1, 16]);
  const counts = new Set<number>();
  for (let step = 0; step < 200; step++) {
    const next = mx.tidy(() => {
      const hidden = mx.linear(state, weight).tanh();
      const logits = mx.softmax(hidden, -1);
      const [left, right] = mx.split(mx.concatenate([logits, hidden], 1), 2, 1);
      return { state: left.add(right), token: mx.argmax(logits) };
    });
    await mx.eval(next.state, next.token);
    await next.token.item();
    next.token.dispose();
    state.dispose();
    state = next.state;
    counts.add(live());
  }
  expect(counts).toEqual(new Set([2]));
  state.dispose();
  weight.dispose();
});

test('`using` frees at the end of the block', () => {
  {
    using x = mx.array([1]);
    using y = x.add(1);
    expect(y.itemSync()).toBe(2);
    expect(live()).toBe(2);
  }
  expect(live()).toBe(0);
});
