/** Caches given to calls, against attention over all tokens at once. */
import {
  CellCache,
  DisposedError,
  mx,
  SequenceCache,
  ShapeError,
  UsageError,
  type KvStorage,
  type MxArray,
  type SequenceCacheOptions,
} from '@mlx-runners/mlx-core';
import { describe, expect, it, onTestFinished } from 'vitest';
import {
  capacity,
  cellSession,
  error,
  expected,
  layers,
  part,
  sequenceSession,
  tokens,
} from './cached-layers.js';
import { loaded, normal, numbers } from './models.js';

const tolerances: Record<KvStorage, number> = {
  ...{ float32: 1e-5, float16: 0.01, bfloat16: 0.06, q8: 0.06, q4: 0.8 },
};

describe.each(Object.keys(tolerances) as KvStorage[])('a sequence cache of %s', (storage) => {
  const calls = 'batch %d, pieces %j, composed: %s';
  it.each([
    [1, [23], false],
    [2, [4, 1, 1, 6, 1, 3, 1, 1, 5], false],
    [2, [4, 1, 1, 6, 1, 3, 1, 1, 5], true],
    [1, Array.from({ length: 23 }, () => 1), false],
  ])(`gives what attention over all tokens does: ${calls}`, async (batch, pieces, composed) => {
    const session = await sequenceSession(batch);
    using cache = new SequenceCache({
      ...{ layers, capacity, batch, storage },
      ...{ initialCapacity: 2, maxWrite: Math.max(...pieces) },
    });
    if (composed) cache.act((addon, handle) => addon.composeCache(handle));
    const whole = tokens(1, batch, 23);
    const right = expected(whole);
    for (const length of pieces) {
      const past = cache.length;
      const { outputs } = await session.run(
        'forward',
        { ...part(whole, past, past + length), past },
        { cache },
      );
      for (const [name, output] of Object.entries(outputs)) {
        const wanted = part({ right: right[name] }, past, past + length).right;
        expect(await error(output, wanted)).toBeLessThan(tolerances[storage]);
      }
    }
    expect(cache.length).toBe(23);
  });

  it('comes back from its state, and from a copy', async () => {
    const session = await sequenceSession(1);
    const options = { layers, capacity, storage, maxWrite: 12 };
    using cache = new SequenceCache(options);
    const whole = tokens(2, 1, 24);
    await session.run('forward', { ...part(whole, 0, 12), past: 0 }, { cache });
    await session.run('forward', { ...part(whole, 12, 20), past: 12 }, { cache });
    using restored = new SequenceCache(options);
    await restored.load(await cache.state());
    using copied = cache.copy();
    const results: number[][] = [];
    for (const each of [cache, restored, copied]) {
      expect(each.length).toBe(20);
      const last = { ...part(whole, 20, 24), past: 20 };
      const { outputs } = await session.run('forward', last, { cache: each });
      results.push([...(await numbers(outputs.all)), ...(await numbers(outputs.near))]);
    }
    expect(results[1]).toEqual(results[0]);
    expect(results[2]).toEqual(results[0]);
  });
});

describe('a sequence cache', () => {
  it('refuses what does not fit, and stays as it was', async () => {
    const session = await sequenceSession(1);
    using cache = new SequenceCache({ layers, capacity: 16, maxWrite: 10 });
    const whole = tokens(3, 1, 30);
    const run = (from: number, to: number, past = from): Promise<unknown> =>
      session.run('forward', { ...part(whole, from, to), past }, { cache });
    await run(0, 10);
    await expect(run(10, 11, 3)).rejects.toThrow(
      /holds 10 tokens, so that the next position is 10/,
    );
    await expect(run(10, 18)).rejects.toThrow(/holds 10 of 16 tokens; 8 more don't fit/);
    await expect(run(10, 18)).rejects.toThrow(ShapeError);
    expect(cache.length).toBe(10);
    expect([cache.canExtend(6), cache.canExtend(7)]).toEqual([true, false]);
    using small = new SequenceCache({ layers, capacity: 16 });
    const long = session.run('forward', { ...part(whole, 0, 6), past: 0 }, { cache: small });
    await expect(long).rejects.toThrow(/room for 5 tokens at once \(maxWrite\), not for 6/);
    expect(small.length).toBe(0);
  });

  it.each([
    [[layers[0]], /the cache has 1 layers?, and the method's layer 1/],
    [[...layers, layers[0]], /the cache has 3 layers, and the method doesn't use layer 2/],
    [[layers[0], { ...layers[1], kvHeads: 2 }], /layer 1 of the cache has kvHeads 2/],
    [[{ kvHeads: 2, headSize: 64 }, layers[1]], /layer 0 of the cache has headSize 64/],
    [
      [layers[0], { ...layers[1], window: 4 }],
      /window of 4, and the method's layer sees the last 5/,
    ],
    [[{ ...layers[0], window: 9 }, layers[1]], /window of 9, and the method's layer sees all keys/],
  ])('says how its layers differ from the method: %j', async (other, message) => {
    const session = await sequenceSession(1);
    using cache = new SequenceCache({ layers: other, capacity });
    const call = session.run('forward', { ...tokens(4, 1, 1), past: 0 }, { cache });
    await expect(call).rejects.toThrow(message);
    await expect(call).rejects.toThrow(ShapeError);
    expect(cache.length).toBe(0);
  });

  it('rewinds as far as its windows are still there', async () => {
    const session = await sequenceSession(1);
    using cache = new SequenceCache({ layers, capacity, maxWrite: 8 });
    const whole = tokens(5, 1, 20);
    for (const [from, to] of [
      [0, 8],
      [8, 16],
      [16, 20],
    ]) {
      await session.run('forward', { ...part(whole, from, to), past: from }, { cache });
    }
    expect([cache.canRewind(21), cache.canRewind(11)]).toEqual([false, false]);
    expect(() => cache.rewind(11)).toThrow(/can't be rewound from 20 to 11 tokens/);
    cache.rewind(12);
    const { outputs } = await session.run(
      'forward',
      { ...part(whole, 12, 20), past: 12 },
      { cache },
    );
    const right = part(expected(whole), 12, 20);
    expect(await error(outputs.all, right.all)).toBeLessThan(1e-5);
    expect(await error(outputs.near, right.near)).toBeLessThan(1e-5);
    cache.clear();
    expect(cache.length).toBe(0);
  });

  it.each<[string, (state: Map<string, MxArray>) => void, RegExp]>([
    ['none of a layer', (state) => state.delete('1.values'), /no 1\.values/],
    ['no length', (state) => state.delete('length'), /no length/],
    [
      'too many tokens',
      (state) => state.set('length', mx.array([41], null, 'int32')),
      /has 41 tokens, and the cache's capacity is 40/,
    ],
    [
      'a negative length',
      (state) => state.set('length', mx.array([-1], null, 'int32')),
      /has -1 tokens/,
    ],
    ['a length that is none of int32', (state) => state.set('length', mx.array([7])), /one int32/],
    [
      'fewer tokens than a window sees',
      (state) => {
        state.set('1.keys', mx.zeros([1, 1, 3, 32]));
        state.set('1.values', mx.zeros([1, 1, 3, 64]));
      },
      /layer 1 of the state has 3 tokens/,
    ],
    [
      'other heads',
      (state) => state.set('0.values', mx.zeros([1, 4, 7, 32])),
      /0\.values has another shape/,
    ],
    [
      'another dtype',
      (state) => state.set('1.keys', mx.zeros([1, 1, 5, 32], 'float16')),
      /1\.keys has another shape or dtype/,
    ],
    ['too few axes', (state) => state.set('0.keys', mx.zeros([7])), /0\.keys has to be of 4 axes/],
  ])('refuses a state with %s, and stays as it was', async (_, spoil, message) => {
    const session = await sequenceSession(1);
    const [inputs, others] = [tokens(20, 1, 9), tokens(21, 1, 7)];
    using cache = new SequenceCache({ layers, capacity, initialCapacity: 4, maxWrite: 8 });
    await session.run('forward', { ...part(inputs, 0, 8), past: 0 }, { cache });
    using other = new SequenceCache({ layers, capacity, maxWrite: 8 });
    await session.run('forward', { ...others, past: 0 }, { cache: other });
    const state = await other.state();
    spoil(state);
    await expect(cache.load(state)).rejects.toThrow(ShapeError);
    await expect(cache.load(state)).rejects.toThrow(message);
    expect(cache.length).toBe(8);
    const next = { ...part(inputs, 8, 9), past: 8 };
    const { outputs } = await session.run('forward', next, { cache });
    const right = part(expected(inputs), 8, 9);
    for (const [name, output] of Object.entries(outputs)) {
      expect(await error(output, right[name])).toBeLessThan(1e-5);
    }
  });

  it('serves sessions in turns', async () => {
    const sessions = [await sequenceSession(1), await sequenceSession(1)];
    using cache = new SequenceCache({ layers, capacity, maxWrite: 2 });
    const inputs = tokens(22, 1, 12);
    const right = expected(inputs);
    for (let past = 0; past < 12; past += 2) {
      const next = { ...part(inputs, past, past + 2), past };
      const { outputs } = await sessions[(past / 2) % 2].run('forward', next, { cache });
      const wanted = part(right, past, past + 2);
      for (const [name, output] of Object.entries(outputs)) {
        expect(await error(output, wanted[name])).toBeLessThan(1e-5);
      }
    }
  });

  it('refuses other keys for a layer that has some from the same call', async () => {
    const row = { dtype: 'float32', shape: [1, 1, 'T', 32] } as const;
    const model = await loaded({
      forward: {
        dimensions: { T: { min: 1, max: 8 }, past: { min: 0, max: 8 } },
        inputs: { q: row, k: row, v: row },
        run: ({ q, k, v }, { past }) => ({
          one: mx.updateAndAttend(q, k, v, past, 0, 1),
          other: mx.updateAndAttend(q, v, k, past, 0, 1),
        }),
      },
    });
    using session = model.session();
    using cache = new SequenceCache({ layers: [{ kvHeads: 1, headSize: 32 }], capacity: 8 });
    const inputs = { q: normal(1, [1, 1, 2, 32]), k: normal(2, [1, 1, 2, 32]) };
    const call = session.run('forward', { ...inputs, v: inputs.q, past: 0 }, { cache });
    await expect(call).rejects.toThrow(/layer 0 of the cache is used twice/);
    expect(cache.length).toBe(0);
    model.dispose();
  });

  it('serves one call at a time', async () => {
    const [one, other] = [await sequenceSession(1), await sequenceSession(1)];
    using cache = new SequenceCache({ layers, capacity, maxWrite: 20 });
    const first = { ...tokens(6, 1, 20), past: 0 };
    const outcomes = await Promise.allSettled([
      one.run('forward', first, { cache }),
      other.run('forward', first, { cache }),
    ]);
    const failed = outcomes.filter(({ status }) => status === 'rejected');
    expect(failed).toHaveLength(1);
    expect(cache.length).toBe(20);
  });

  it('stays for a call that runs when it is disposed', async () => {
    const session = await sequenceSession(1);
    const cache = new SequenceCache({ layers, capacity, maxWrite: 20 });
    const inputs = tokens(7, 1, 20);
    await Promise.all(Object.values(inputs).map(numbers));
    const running = session.run('forward', { ...inputs, past: 0 }, { cache });
    cache.dispose();
    const { outputs } = await running;
    expect(await error(outputs.all, expected(inputs).all)).toBeLessThan(1e-5);
    expect(() => cache.length).toThrow(DisposedError);
  });

  it('counts in memory what it takes', () => {
    const before = mx.memory().active;
    using cache = new SequenceCache({ layers, capacity, initialCapacity: 16 });
    const flat = 16 * 2 * 2 * 32;
    const ring = (5 + 5 - 1) * (32 + 64);
    expect(cache.bytes).toBe(4 * (flat + ring));
    expect(mx.memory().active - before).toBeGreaterThanOrEqual(cache.bytes);
    cache.dispose();
    expect(mx.memory().active).toBeLessThan(before + 4096);
  });

  it.each([
    [{ capacity: 0 }, /capacity/],
    [{ capacity: 8, initialCapacity: -1 }, /initialCapacity/],
    [{ capacity: 8, storage: 'q5' }, /storage/],
    [{ capacity: 8, cells: 1 }, /no option cells/],
  ])('refuses the options %j', (options, message) => {
    const given = { layers, ...options } as SequenceCacheOptions;
    expect(() => new SequenceCache(given)).toThrow(UsageError);
    expect(() => new SequenceCache(given)).toThrow(message);
  });

  it('starts with no memory at all', async () => {
    const session = await sequenceSession(1);
    using cache = new SequenceCache({ layers, capacity, initialCapacity: 0, maxWrite: 3 });
    const inputs = tokens(8, 1, 3);
    const { outputs } = await session.run('forward', { ...inputs, past: 0 }, { cache });
    expect(await error(outputs.all, expected(inputs).all)).toBeLessThan(1e-5);
  });
});

/** A call's tokens [B, heads, 1, size] of whole sequences, by sequence and position. */
function picked(
  whole: readonly Record<string, MxArray>[],
  chosen: readonly (readonly [which: number, position: number])[],
): Record<string, MxArray> {
  const parts = chosen.map(([which, position]) => part(whole[which], position, position + 1));
  return Object.fromEntries(
    ['q', 'k', 'v'].map((name) => [
      name,
      mx.concatenate(
        parts.map((each) => each[name]),
        0,
      ),
    ]),
  );
}

async function stepping(composed = false): Promise<{
  cache: CellCache;
  step: (
    whole: readonly Record<string, MxArray>[],
    chosen: readonly (readonly [which: number, position: number, sequence: number])[],
  ) => Promise<Record<string, MxArray>>;
}> {
  const session = await cellSession();
  const cache = new CellCache({ layers, cells: 40 });
  if (composed) cache.act((addon, handle) => addon.composeCache(handle));
  onTestFinished(() => {
    cache.dispose();
  });
  return {
    cache,
    step: async (whole, chosen) => {
      const inputs = {
        ...picked(
          whole,
          chosen.map(([which, position]) => [which, position] as const),
        ),
        positions: mx.array(
          chosen.map(([, position]) => position),
          null,
          'int32',
        ),
      };
      const sequences = Int32Array.from(chosen, ([, , sequence]) => sequence);
      return (await session.run('step', inputs, { cache, sequences })).outputs;
    },
  };
}

async function expectTokens(
  outputs: Record<string, MxArray>,
  whole: readonly Record<string, MxArray>[],
  chosen: readonly (readonly [which: number, position: number, ...rest: number[]])[],
): Promise<void> {
  const right = whole.map(expected);
  for (const [row, [which, position]] of chosen.entries()) {
    for (const name of ['all', 'near', 'nearer']) {
      const [, heads, , size] = outputs[name].shape;
      const actual = outputs[name].slice([row, 0, 0, 0], [row + 1, heads, 1, size]);
      const wanted = part(right[which], position, position + 1)[name];
      expect(await error(actual, wanted)).toBeLessThan(1e-5);
    }
  }
}

describe.each([false, true])('a cell cache, composed: %s', (composed) => {
  it('gives each of several sequences what it gets alone', async () => {
    const { cache, step } = await stepping(composed);
    const whole = [tokens(10, 1, 12), tokens(11, 1, 12)];
    const [a, b] = [cache.open(), cache.open()];
    const steps: [number, number, number][][] = [
      // Chunks of both, apart and mixed, then single tokens.
      [...[0, 1, 2, 3].map((i): [number, number, number] => [0, i, a]), [1, 0, b]],
      [
        [1, 1, b],
        [0, 4, a],
        [1, 2, b],
        [0, 5, a],
        [0, 6, a],
      ],
      [
        [0, 7, a],
        [1, 3, b],
      ],
      [4, 5, 6, 7].map((i): [number, number, number] => [1, i, b]),
      [
        [0, 8, a],
        [1, 8, b],
      ],
    ];
    for (const chosen of steps) await expectTokens(await step(whole, chosen), whole, chosen);
    expect([cache.length(a), cache.length(b), cache.freeCells]).toEqual([9, 9, 40 - 18]);
  });

  it('shares cells between forks until the last one is closed', async () => {
    const { cache, step } = await stepping(composed);
    const whole = [tokens(12, 1, 10), tokens(13, 1, 10)];
    // The second is the first up to position 6.
    for (const name of ['q', 'k', 'v']) {
      const head = part(whole[0], 0, 6)[name];
      whole[1][name] = mx.concatenate([head, part(whole[1], 6, 10)[name]], 2);
    }
    const a = cache.open();
    await step(
      whole,
      Array.from({ length: 8 }, (_, i) => [0, i, a] as const),
    );
    const b = cache.fork(a, 6);
    const twin = cache.fork(a);
    expect([cache.length(b), cache.length(twin), cache.freeCells]).toEqual([6, 8, 32]);
    const chosen = [
      [1, 6, b],
      [0, 8, twin],
      [1, 7, b],
      [0, 8, a],
    ] as const;
    await expectTokens(await step(whole, chosen), whole, chosen);
    cache.close(a);
    cache.close(twin);
    expect(cache.freeCells).toBe(32);
    const next = [[1, 8, b]] as const;
    await expectTokens(await step(whole, next), whole, next);
    cache.close(b);
    expect(cache.freeCells).toBe(40);
  });

  it('refuses a step that does not fit, and changes nothing', async () => {
    const { cache, step } = await stepping(composed);
    const whole = [tokens(14, 1, 60)];
    const a = cache.open();
    await step(
      whole,
      Array.from({ length: 39 }, (_, i) => [0, i, a] as const),
    );
    const two = step(whole, [
      [0, 39, a],
      [0, 40, a],
    ]);
    await expect(two).rejects.toThrow(/1 of the cache's 40 cells are free; 2 tokens don't fit/);
    await expect(step(whole, [[0, 3, a]])).rejects.toThrow(/next position of sequence 0 is 39/);
    await expect(step(whole, [[0, 39, 9]])).rejects.toThrow(UsageError);
    expect([cache.length(a), cache.freeCells]).toEqual([39, 1]);
    cache.remove(a, 30);
    expect([cache.length(a), cache.freeCells]).toEqual([30, 10]);
    const next = [[0, 30, a]] as const;
    await expectTokens(await step(whole, next), whole, next);
  });
});

describe('a cell cache', () => {
  it('refuses the 64th sequence and unknown ones', () => {
    using cache = new CellCache({ layers, cells: 8 });
    for (let i = 0; i < 63; i++) expect(cache.open()).toBe(i);
    expect(() => cache.open()).toThrow(/at most 63 sequences/);
    cache.close(5);
    expect(() => cache.length(5)).toThrow(UsageError);
    expect(cache.open()).toBe(5);
    expect(() => cache.length(63)).toThrow(UsageError);
  });
});
