import { describe, expect, test } from 'vitest';
import { ShapeError } from '@mlx-runners/mlx-core/errors';
import { expectNumbers, thrown } from '../expectations.js';
import { arrayOf, headsViewOf, numbers, stridedArrayOf, type Mx } from './inputs.js';
import { attention, type AttentionInputs, type Plain } from './reference.js';

interface Sizes {
  heads: number;
  kvHeads: number;
  queries: number;
  keys: number;
  dim: number;
  valueDim?: number;
  batches?: number;
}

function inputs({ batches = 1, ...sizes }: Sizes): AttentionInputs {
  const { heads, kvHeads, queries, keys, dim, valueDim = dim } = sizes;
  return {
    q: numbers([batches, heads, queries, dim], 1),
    k: numbers([batches, kvHeads, keys, dim], 2),
    v: numbers([batches, kvHeads, keys, valueDim], 3),
    scale: 1 / Math.sqrt(dim),
  };
}

type MaskMode = Parameters<Mx['attention']>[4];

const tolerance = 5e-6;

const causalMask =
  (queries: number, keys: number): AttentionInputs['mask'] =>
  (_batch, _head, query, key) =>
    key <= query + keys - queries ? 0 : -Infinity;

/** Numbers of queries and keys on both sides of where the kernels change their way. */
const lengths: [queries: number, keys: number][] = [
  [1, 1],
  [1, 7],
  [1, 300],
  [2, 3],
  [5, 5],
  [8, 257],
  [9, 9],
  [13, 31],
  [33, 70],
];

export function attentionSuite(mx: Mx): void {
  const run = (
    { q, k, v, scale }: AttentionInputs,
    mode?: MaskMode,
    mask?: Parameters<typeof mx.scaledDotProductAttention>[5],
    view: (mx: Mx, plain: Plain) => ReturnType<typeof arrayOf> = arrayOf,
  ) =>
    mx.tidy(() =>
      mx
        .scaledDotProductAttention(view(mx, q), view(mx, k), view(mx, v), scale, mode, mask)
        .dataSync(),
    );

  describe('scaledDotProductAttention', () => {
    const cases = [7, 64, 80].flatMap((dim) =>
      lengths.map(([queries, keys]) => [dim, queries, keys] as const),
    );
    test.each(cases)('dim %d, %d queries, %d keys', (dim, queries, keys) => {
      for (const [heads, kvHeads] of [
        [2, 2],
        [6, 2],
        [3, 1],
      ]) {
        const given = inputs({ heads, kvHeads, queries, keys, dim, batches: 2 });
        expectNumbers(run(given), attention(given), tolerance);
        const hidden = { ...given, mask: causalMask(queries, keys) };
        expectNumbers(run(given, 'causal'), attention(hidden), tolerance);
      }
    });

    test.each(lengths)('views of heads inside positions, %d queries, %d keys', (queries, keys) => {
      const given = inputs({ heads: 4, kvHeads: 2, queries, keys, dim: 16, batches: 2 });
      expectNumbers(run(given, '', null, headsViewOf), attention(given), tolerance);
      expectNumbers(run(given, '', null, stridedArrayOf), attention(given), tolerance);
    });

    test('the result can be merged into positions again', () => {
      const given = inputs({ heads: 4, kvHeads: 4, queries: 12, keys: 12, dim: 8, batches: 2 });
      mx.tidy(() => {
        const [q, k, v] = [given.q, given.k, given.v].map((each) => headsViewOf(mx, each));
        const out = mx.scaledDotProductAttention(q, k, v, given.scale);
        const merged = out.transpose([0, 2, 1, 3]).reshape([2, 12, 32]);
        const expected = mx
          .array(attention(given), out.shape, 'float32')
          .transpose([0, 2, 1, 3])
          .reshape([2, 12, 32]);
        expectNumbers(merged.dataSync(), expected.dataSync() as Float32Array, tolerance);
      });
    });

    test('values of another width than keys', () => {
      for (const queries of [1, 20]) {
        const given = inputs({ heads: 4, kvHeads: 2, queries, keys: 33, dim: 24, valueDim: 10 });
        expectNumbers(run(given), attention(given), tolerance);
      }
    });
  });

  describe('masks', () => {
    const maskShapes = (queries: number, keys: number) => [
      [2, 4, queries, keys],
      [2, 1, queries, keys],
      [1, 1, 1, keys],
      [queries, keys],
      [keys],
      [2, 1, 1, keys],
    ];

    /** Reads a mask of any broadcastable shape. */
    const reader = (mask: Plain): NonNullable<AttentionInputs['mask']> => {
      return (...position) => {
        const index = position.slice(4 - mask.shape.length);
        const at = mask.shape.reduce((sum, size, i) => sum * size + (size === 1 ? 0 : index[i]), 0);
        return mask.data[at];
      };
    };

    test.each([
      [1, 40],
      [6, 9],
      [20, 270],
    ])('additive and boolean, of every shape, %d queries, %d keys', (queries, keys) => {
      const given = inputs({ heads: 4, kvHeads: 2, queries, keys, dim: 16, batches: 2 });
      for (const shape of maskShapes(queries, keys)) {
        const added = numbers(shape, 5);
        // A third of the keys is hidden, but never the first.
        added.data.forEach((_, i) => {
          if (i % keys > 0 && i % 3 === 1) added.data[i] = -Infinity;
        });
        mx.tidy(() => {
          const sum = run(given, 'array', arrayOf(mx, added));
          expectNumbers(sum, attention({ ...given, mask: reader(added) }), tolerance);
          const seen = mx.array(
            Uint8Array.from(added.data, (value) => Number(value !== -Infinity)),
            shape,
            'bool_',
          );
          const hidden: Plain = {
            shape,
            data: added.data.map((value) => (value === -Infinity ? value : 0)),
          };
          expectNumbers(
            run(given, '', seen),
            attention({ ...given, mask: reader(hidden) }),
            tolerance,
          );
        });
      }
    });

    test('a strided mask', () => {
      const given = inputs({ heads: 2, kvHeads: 2, queries: 12, keys: 20, dim: 8 });
      const added = numbers([12, 20], 5);
      mx.tidy(() => {
        const result = run(given, 'array', stridedArrayOf(mx, added));
        expectNumbers(result, attention({ ...given, mask: reader(added) }), tolerance);
      });
    });

    test.each([2, 20])('a query that sees nothing: %d queries', (queries) => {
      const given = inputs({ heads: 1, kvHeads: 1, queries, keys: 30, dim: 8 });
      const added: Plain = { data: new Float64Array(queries * 30), shape: [queries, 30] };
      added.data.fill(-Infinity, 0, 30);
      const expected = attention({ ...given, mask: reader(added) });
      expected.fill(NaN, 0, 8);
      mx.tidy(() => {
        expectNumbers(run(given, 'array', arrayOf(mx, added)), expected, tolerance);
        const seen = mx.equal(arrayOf(mx, added), 0);
        // A boolean mask lowers scores to the smallest number there is: all keys weigh the same.
        const zeros: Plain = { data: new Float64Array(given.q.data.length), shape: given.q.shape };
        expected.set(attention({ ...given, q: zeros }).subarray(0, 8));
        expectNumbers(run(given, 'array', seen), expected, tolerance);
      });
    });
  });

  test('where there is no key at all the result is 0, as of MLX', () => {
    for (const queries of [3, 20]) {
      for (const dtype of ['float32', 'float16'] as const) {
        mx.tidy(() => {
          const q = mx.ones([1, 2, queries, 8], dtype);
          const none = mx.zeros([1, 1, 0, 8], dtype);
          const results = [
            mx.scaledDotProductAttention(q, none, none, 1),
            mx.scaledDotProductAttention(q, none, none, 1, 'causal'),
            mx.attention(q, none, none, 1, 'causal', null, null, 2, 3),
          ];
          for (const y of results) {
            expect(y.shape).toEqual(q.shape);
            expect(y.astype('float32').dataSync()).toEqual(new Float32Array(q.size));
          }
        });
      }
    }
  });

  test.each([2, 20])('with sinks, hiding all keys gives 0: %d queries', (queries) => {
    const given = inputs({ heads: 2, kvHeads: 1, queries, keys: 30, dim: 8 });
    for (const dtype of ['float32', 'float16'] as const) {
      mx.tidy(() => {
        const [q, k, v] = [given.q, given.k, given.v].map((x) => arrayOf(mx, x).astype(dtype));
        const hidden = mx.zeros([queries, 30], 'bool_');
        const sinks = mx.zeros([2], dtype);
        const y = mx.scaledDotProductAttention(q, k, v, 1, 'array', hidden, sinks);
        expect(y.astype('float32').dataSync()).toEqual(new Float32Array(q.size));
      });
    }
  });

  test.each([
    [3, 2],
    [20, 5],
  ])('causal with %d queries and only %d keys: the first see nothing', (queries, keys) => {
    const given = inputs({ heads: 1, kvHeads: 1, queries, keys, dim: 8 });
    const blind = queries - keys;
    const mask: AttentionInputs['mask'] = (_batch, _head, query, key) =>
      query >= blind && key > query - blind ? -Infinity : 0;
    const expected = attention({ ...given, mask });
    const zeros: Plain = { data: new Float64Array(given.q.data.length), shape: given.q.shape };
    expected.set(attention({ ...given, q: zeros }).subarray(0, 8 * blind));
    expectNumbers(run(given, 'causal'), expected, tolerance);
  });

  describe('attention', () => {
    /** The last `window` keys up to a query's own position. */
    const inWindow =
      (queries: number, keys: number, window: number): AttentionInputs['mask'] =>
      (_batch, _head, query, key) => {
        const position = query + keys - queries;
        return key <= position && key > position - window ? 0 : -Infinity;
      };
    const call = (
      { q, k, v, scale, softcap, sinks }: AttentionInputs,
      window: number,
      mode: MaskMode = 'causal',
      mask: ReturnType<typeof arrayOf> | null = null,
    ) =>
      mx.tidy(() => {
        const parts = [q, k, v].map((each) => arrayOf(mx, each));
        const column = sinks ? arrayOf(mx, sinks) : null;
        return mx
          .attention(parts[0], parts[1], parts[2], scale, mode, mask, column, window, softcap)
          .dataSync();
      });

    test.each([...lengths, [1, 900] as const, [40, 700] as const])(
      'windows, %d queries, %d keys',
      (queries, keys) => {
        const given = inputs({ heads: 4, kvHeads: 2, queries, keys, dim: 20, batches: 2 });
        for (const window of [1, 5, 100, 300]) {
          if (queries > keys) continue;
          const expected = attention({ ...given, mask: inWindow(queries, keys, window) });
          expectNumbers(call(given, window), expected, tolerance);
        }
      },
    );

    test.each(lengths)('softcap and sinks, %d queries, %d keys', (queries, keys) => {
      const sizes = { heads: 6, kvHeads: 2, queries, keys, dim: 24, batches: 2 };
      const given = { ...inputs(sizes), sinks: numbers([6], 4), scale: 1 };
      for (const mode of ['', 'causal'] as const) {
        const mask = mode === '' ? undefined : causalMask(queries, keys);
        for (const softcap of [undefined, 2, 50]) {
          const expected = attention({ ...given, softcap, mask });
          expectNumbers(call({ ...given, softcap }, 0, mode), expected, tolerance);
        }
      }
    });

    test.each([
      [1, 40],
      [20, 270],
    ])('a window beside masks, %d queries, %d keys', (queries, keys) => {
      const given = { ...inputs({ heads: 4, kvHeads: 2, queries, keys, dim: 16 }), softcap: 3 };
      const added = numbers([queries, keys], 5);
      const window = 9;
      const reader: AttentionInputs['mask'] = (_batch, _head, query, key) =>
        key > query + keys - queries - window ? added.data[query * keys + key] : -Infinity;
      mx.tidy(() => {
        const mask = arrayOf(mx, added);
        expectNumbers(
          call(given, window, 'array', mask),
          attention({ ...given, mask: reader }),
          tolerance,
        );
        // A query of which the mask leaves nothing in its window averages all values.
        const seen = mx.greater(mask, -1.5);
        const hidden: AttentionInputs['mask'] = (batch, head, query, key) =>
          added.data[query * keys + key] > -1.5
            ? Math.min(0, reader(batch, head, query, key) === -Infinity ? -Infinity : 0)
            : -Infinity;
        expectNumbers(
          call(given, window, 'array', seen),
          attention({ ...given, mask: hidden }),
          tolerance,
        );
      });
    });

    test('the same by MLX’s own ops, in half precision', () => {
      const given = inputs({ heads: 4, kvHeads: 2, queries: 7, keys: 30, dim: 16 });
      const [sinks, softcap, window] = [numbers([4], 4), 4, 11];
      const mask = inWindow(7, 30, window);
      for (const options of [{ sinks }, { softcap }, { sinks, softcap }]) {
        mx.tidy(() => {
          const [q, k, v] = [given.q, given.k, given.v].map((each) =>
            arrayOf(mx, each).astype('float16'),
          );
          const column = options.sinks ? arrayOf(mx, sinks).astype('float16') : null;
          const result = mx.attention(
            ...([q, k, v, given.scale, 'causal', null, column, window] as const),
            options.softcap ?? 0,
          );
          expect(result.dtype).toBe('float16');
          expectNumbers(result.dataSync(), attention({ ...given, ...options, mask }), 1e-2);
        });
      }
    });

    test('the live part of a cache is read in place', () => {
      const [capacity, live] = [4096, 300];
      for (const queries of [1, 12]) {
        const given = inputs({ heads: 4, kvHeads: 2, queries, keys: live, dim: 64 });
        mx.tidy(() => {
          const cached = (plain: Plain) => {
            const rest = mx.full([1, 2, capacity - live, 64], NaN);
            return mx.contiguous(mx.concatenate([arrayOf(mx, plain), rest], 2));
          };
          const [k, v, q] = [cached(given.k), cached(given.v), arrayOf(mx, given.q)];
          mx.evalSync(k, v, q);
          const part = (cache: typeof k) => mx.slice(cache, [0, 0, 0, 0], [1, 2, live, 64]);
          const before = mx.memory().active;
          mx.resetPeakMemory();
          const result = mx.scaledDotProductAttention(q, part(k), part(v), given.scale);
          expectNumbers(result.dataSync(), attention(given), tolerance);
          expect(mx.memory().peak - before).toBeLessThan(live * 64 * 4);
        });
      }
    });

    test('wrong arguments', () => {
      mx.tidy(() => {
        const q = mx.zeros([1, 2, 3, 8]);
        for (const [batches, heads] of [
          [1, 2],
          [1, 0],
          [0, 2],
        ]) {
          for (const dtype of ['float32', 'float16'] as const) {
            const query = mx.zeros([batches, heads, 4, 8], dtype);
            const none = mx.zeros([batches, 0, 4, 8], dtype);
            for (const call of [
              () => mx.attention(query, none, none, 1),
              () => mx.attention(query, none, none, 1, 'causal', null, null, 2, 3),
              () => mx.scaledDotProductAttention(query, none, none, 1),
            ]) {
              const error = thrown(call);
              expect(error).toBeInstanceOf(ShapeError);
              expect(error.message).toMatch(/k and v have to have at least one head/);
            }
          }
        }
        const wrong = (window: number, softcap: number) =>
          thrown(() => mx.attention(q, q, q, 1, '', null, null, window, softcap));
        expect(wrong(-1, 0)).toBeInstanceOf(ShapeError);
        expect(wrong(0, NaN)).toBeInstanceOf(ShapeError);
        expect(
          thrown(() => mx.attention(q, mx.zeros([1, 2, 3, 7]), q, 1, 'causal', null, null, 2)),
        ).toBeInstanceOf(ShapeError);
      });
    });
  });

  describe('special values', () => {
    test.each([2, 20])('NaN in a query only spoils its row: %d queries', (queries) => {
      const given = inputs({ heads: 2, kvHeads: 1, queries, keys: 17, dim: 8 });
      given.q.data[3] = NaN;
      const result = run(given);
      const expected = attention(given);
      expected.fill(NaN, 0, 8);
      expectNumbers(result, expected, tolerance);
    });

    test.each([2, 20])('NaN in a key that is hidden stays hidden: %d queries', (queries) => {
      const given = inputs({ heads: 1, kvHeads: 1, queries, keys: queries, dim: 8 });
      const mask = (_batch: number, _head: number, query: number, key: number) =>
        key <= query ? 0 : -Infinity;
      given.k.data[8 * (queries - 1)] = NaN;
      const expected = attention({ ...given, mask });
      const result = run(given, 'causal');
      // The last query sees the last key.
      const before = 8 * (queries - 1);
      expectNumbers(result.subarray(0, before), expected.subarray(0, before), tolerance);
      expect(result[before]).toBeNaN();
    });

    test('large scores don’t overflow', () => {
      for (const queries of [1, 20]) {
        const given = {
          ...inputs({ heads: 1, kvHeads: 1, queries, keys: 40, dim: 8 }),
          scale: 100,
        };
        expectNumbers(run(given), attention(given), 2e-4);
      }
    });

    test('nothing to attend with gives nothing', () => {
      mx.tidy(() => {
        const q = mx.zeros([1, 2, 0, 8]);
        const k = mx.zeros([1, 2, 3, 8]);
        expect(mx.scaledDotProductAttention(q, k, k, 1).shape).toEqual([1, 2, 0, 8]);
        const none = mx.zeros([0, 2, 3, 8]);
        expect(mx.scaledDotProductAttention(none, none, none, 1).shape).toEqual([0, 2, 3, 8]);
        expect(mx.scaledDotProductAttention(none, none, none, 1).dataSync()).toHaveLength(0);
      });
    });
  });
}
