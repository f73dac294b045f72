/** Random use of caches, against plain attention over lists of tokens. */
import {
  CellCache,
  mx,
  SequenceCache,
  ShapeError,
  UsageError,
  type KvStorage,
  type MxArray,
} from '@mlx-runners/mlx-core';
import { AbortedError } from '@mlx-runners/mlx-core/errors';
import type { Session } from '@mlx-runners/program';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { capacity, cellSession, layers, sequenceSession } from './cached-layers.js';
import { plainOutputs, plainToken, type PlainToken } from './plain-attention.js';

const tolerances: Record<KvStorage, number> = {
  ...{ float32: 1e-5, float16: 1e-5, bfloat16: 1e-5, q8: 0.02, q4: 1e-5 },
};
const storages = Object.keys(tolerances) as KvStorage[];
const options = { numRuns: 40, seed: 1 };

/** By output, rows of heads · size numbers. */
async function rowsOf(
  outputs: Record<string, MxArray>,
  rows: number,
): Promise<Record<string, number[][]>> {
  const all: Record<string, number[][]> = {};
  for (const [name, output] of Object.entries(outputs)) {
    const data = Array.from(await output.data(), Number);
    const size = data.length / rows;
    all[name] = Array.from({ length: rows }, (_, i) => data.slice(i * size, (i + 1) * size));
  }
  return all;
}

function expectNear(actual: readonly number[], right: readonly number[], tolerance: number): void {
  expect(actual.length).toBe(right.length);
  const errors = actual.map((x, i) => Math.abs(x - right[i]));
  expect(errors.every((each) => each < tolerance)).toBe(true);
}

const inputs = ['q', 'k', 'v'] as const;
const heads = { q: 4, k: 2, v: 2 };

/** Tokens [batch, heads, tokens, 32] of sequences. */
function ofSequences(batch: readonly (readonly PlainToken[])[]): Record<string, MxArray> {
  const [{ length }] = batch;
  const arrays = inputs.map((name) => {
    const numbers = batch.flatMap((tokens) => tokens.flatMap((token) => Array.from(token[name])));
    const rows = mx.array(numbers, [batch.length, length, heads[name], 32]);
    return [name, rows.transpose([0, 2, 1, 3])] as const;
  });
  return Object.fromEntries(arrays);
}

const sequenceActions = fc.array(
  fc.oneof(
    { weight: 6, arbitrary: fc.record({ kind: fc.constant('write' as const), count: fc.nat(6) }) },
    fc.record({
      kind: fc.constantFrom('rewind' as const),
      back: fc.nat(12),
    }),
    fc.record({
      kind: fc.constantFrom(
        ...(['clear', 'copy', 'reload', 'misplaced', 'long', 'interrupted'] as const),
      ),
    }),
  ),
  { minLength: 4, maxLength: 24 },
);

interface Random {
  batch: number;
  storage: KvStorage;
  composed: boolean;
  maxWrite: number;
  initialCapacity: number;
}

/** A sequence cache and what it ought to have. */
class Checked {
  cache: SequenceCache;
  tokens: PlainToken[][];
  readonly session: Session;
  readonly random: Random;
  #drawn = 0;

  constructor(session: Session, random: Random) {
    this.session = session;
    this.random = random;
    this.cache = this.#made();
    this.tokens = Array.from({ length: random.batch }, () => []);
  }

  #made(): SequenceCache {
    const { composed, ...sizes } = this.random;
    const cache = new SequenceCache({ layers, capacity, ...sizes });
    if (composed) cache.act((addon, handle) => addon.composeCache(handle));
    return cache;
  }

  /** Other tokens each time, so that what should be gone is noticed. */
  drawn(count: number): PlainToken[][] {
    const from = this.tokens[0].length;
    return this.tokens.map(() => {
      this.#drawn += 1;
      return Array.from({ length: count }, (_, i) => plainToken(this.#drawn, from + i));
    });
  }

  async write(count: number): Promise<void> {
    const added = this.drawn(count);
    const past = this.cache.length;
    const { cache } = this;
    const { outputs } = await this.session.run(
      'forward',
      { ...ofSequences(added), past },
      { cache },
    );
    const rows = Object.entries(outputs).map(
      ([name, output]) => [name, output.transpose([0, 2, 1, 3])] as const,
    );
    const found = await rowsOf(Object.fromEntries(rows), added.length * count);
    for (const [b, tokens] of this.tokens.entries()) {
      tokens.push(...added[b]);
      for (const [i, token] of added[b].entries()) {
        const right = plainOutputs(token, tokens.slice(0, token.position + 1));
        for (const [name, numbers] of Object.entries(right)) {
          expectNear(found[name][b * count + i], numbers, tolerances[this.random.storage]);
        }
      }
    }
  }

  async refused(count: number, past: number): Promise<void> {
    const { cache } = this;
    const call = this.session.run(
      'forward',
      { ...ofSequences(this.drawn(count)), past },
      { cache },
    );
    await expect(call).rejects.toThrow(ShapeError);
  }

  /** A call that is cancelled at some instruction, or too late. */
  async interrupted(): Promise<void> {
    const count = Math.min(2, this.random.maxWrite, capacity - this.cache.length);
    if (count < 1) return;
    const controller = new AbortController();
    const { cache } = this;
    const added = this.drawn(count);
    const call = this.session.run(
      'forward',
      { ...ofSequences(added), past: cache.length },
      { cache, profile: true, signal: controller.signal },
    );
    setTimeout(() => controller.abort(), 1);
    const done = await call.then(
      () => true,
      (error: unknown) => {
        expect(error).toBeInstanceOf(AbortedError);
        return false;
      },
    );
    if (!done) return;
    for (const [b, tokens] of this.tokens.entries()) tokens.push(...added[b]);
  }

  rewind(back: number): void {
    const length = Math.max(0, this.cache.length - back);
    if (!this.cache.canRewind(length)) {
      expect(() => this.cache.rewind(length)).toThrow(ShapeError);
      return;
    }
    this.cache.rewind(length);
    this.#keep(length);
  }

  clear(): void {
    this.cache.clear();
    this.#keep(0);
  }

  copy(): void {
    this.#replace(this.cache.copy());
    if (this.random.composed) this.cache.act((addon, handle) => addon.composeCache(handle));
  }

  /** Into a cache that has had others. */
  async reload(): Promise<void> {
    const fresh = this.#made();
    const past = 0;
    const others = ofSequences(this.drawn(1));
    await this.session.run('forward', { ...others, past }, { cache: fresh });
    await fresh.load(await this.cache.state());
    this.#replace(fresh);
  }

  #replace(cache: SequenceCache): void {
    this.cache.dispose();
    this.cache = cache;
  }

  #keep(length: number): void {
    for (const tokens of this.tokens) tokens.length = length;
  }
}

test('a sequence cache has what was written last, whatever else is done with it', async () => {
  const sessions = [await sequenceSession(1), await sequenceSession(2)];
  await fc.assert(
    fc.asyncProperty(
      fc.record({
        batch: fc.integer({ min: 1, max: 2 }),
        storage: fc.constantFrom(...storages),
        composed: fc.boolean(),
        maxWrite: fc.integer({ min: 1, max: 6 }),
        initialCapacity: fc.nat(20),
      }),
      sequenceActions,
      async (random, actions) => {
        const checked = new Checked(sessions[random.batch - 1], random);
        for (const action of actions) {
          const { length } = checked.cache;
          const left = capacity - length;
          switch (action.kind) {
            case 'write':
              if (left > 0)
                await checked.write(1 + (action.count % Math.min(left, random.maxWrite)));
              break;
            case 'rewind':
              checked.rewind(action.back);
              break;
            case 'misplaced':
              await checked.refused(1, length + 1);
              break;
            case 'long':
              await checked.refused(random.maxWrite + 1, length);
              break;
            default:
              await checked[action.kind]();
          }
          expect(checked.cache.length).toBe(checked.tokens[0].length);
        }
        checked.cache.dispose();
      },
    ),
    {
      ...options,
      examples: [
        // A layer's memory is all of what the first call gives it.
        [
          { batch: 1, storage: 'float32', composed: true, maxWrite: 2, initialCapacity: 0 },
          [{ kind: 'write', count: 0 }, { kind: 'copy' }, { kind: 'write', count: 0 }],
        ],
      ],
    },
  );
});

const cellActions = fc.array(
  fc.oneof(
    {
      weight: 6,
      arbitrary: fc.record({
        kind: fc.constant('step' as const),
        parts: fc.array(fc.tuple(fc.nat(50), fc.integer({ min: 1, max: 4 })), {
          minLength: 1,
          maxLength: 5,
        }),
      }),
    },
    fc.record({
      kind: fc.constantFrom(...(['open', 'open', 'fork', 'remove', 'close'] as const)),
      which: fc.nat(50),
      from: fc.nat(12),
      count: fc.nat(6),
    }),
  ),
  { minLength: 6, maxLength: 30 },
);

test('sequences of a cell cache see their own tokens and no others', async () => {
  const session = await cellSession();
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...storages),
      fc.boolean(),
      fc.constantFrom(capacity, 700),
      cellActions,
      async (storage, composed, cells, actions) => {
        using cache = new CellCache({ layers, cells, storage });
        if (composed) cache.act((addon, handle) => addon.composeCache(handle));
        /** By sequence, by position. */
        const open = new Map<number, PlainToken[]>([[cache.open(), []]]);
        const lengthOf = (tokens: readonly PlainToken[]): number =>
          (tokens.at(-1)?.position ?? -1) + 1;
        let seed = 0;
        for (const action of actions) {
          const numbers = [...open.keys()];
          if (action.kind === 'step') {
            if (numbers.length === 0) continue;
            const chosen: { sequence: number; token: PlainToken; seen: PlainToken[] }[] = [];
            const after = new Map([...open].map(([number, tokens]) => [number, [...tokens]]));
            for (const [which, count] of action.parts) {
              const sequence = numbers[which % numbers.length];
              const tokens = after.get(sequence) ?? [];
              for (let i = 0; i < count; i++) {
                const token = plainToken((seed += 1), lengthOf(tokens));
                tokens.push(token);
                chosen.push({ sequence, token, seen: [...tokens] });
              }
            }
            const call = session.run(
              'step',
              {
                ...inCells(chosen.map(({ token }) => token)),
                positions: mx.array(Int32Array.from(chosen, ({ token }) => token.position)),
              },
              { cache, sequences: Int32Array.from(chosen, ({ sequence }) => sequence) },
            );
            if (chosen.length > cache.freeCells) {
              await expect(call).rejects.toThrow(ShapeError);
              continue;
            }
            const found = await rowsOf((await call).outputs, chosen.length);
            for (const [i, { token, seen }] of chosen.entries()) {
              for (const [name, right] of Object.entries(plainOutputs(token, seen))) {
                expectNear(found[name][i], right, tolerances[storage]);
              }
            }
            for (const [number, tokens] of after) open.set(number, tokens);
          } else if (action.kind === 'open' || numbers.length === 0) {
            open.set(cache.open(), []);
          } else {
            const sequence = numbers[action.which % numbers.length];
            const tokens = open.get(sequence) ?? [];
            if (action.kind === 'close') {
              cache.close(sequence);
              open.delete(sequence);
              expect(() => cache.length(sequence)).toThrow(UsageError);
            } else if (action.kind === 'fork') {
              const length = Math.min(action.from, lengthOf(tokens));
              open.set(
                cache.fork(sequence, length),
                tokens.filter(({ position }) => position < length),
              );
            } else {
              const [from, to] = [action.from, action.from + action.count];
              cache.remove(sequence, from, to);
              open.set(
                sequence,
                tokens.filter(({ position }) => position < from || position >= to),
              );
            }
          }
          for (const [number, tokens] of open) {
            expect(cache.length(number)).toBe(lengthOf(tokens));
          }
          const owned = new Set([...open.values()].flat());
          expect(cache.freeCells).toBe(cells - owned.size);
        }
      },
    ),
    options,
  );
});

/** A batch of tokens, [tokens, heads, 1, 32]. */
function inCells(tokens: readonly PlainToken[]): Record<string, MxArray> {
  return ofSequences(tokens.map((token) => [token]));
}
