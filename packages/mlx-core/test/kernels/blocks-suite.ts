/** Products with weights in blocks against sums in double precision, on the goldens' weights. */
import { readTensorFixture, type FixtureTensor } from '@mlx-runners/test-fixtures';
import { describe, expect, test } from 'vitest';
import { expectNumbers } from '../expectations.js';
import { unaligned } from '../unaligned-arrays.js';
import { expectWithin, fastBounds, product, type Weights } from './bounds.js';
import { arrayOf, numbers, stridedArrayOf, type Mx } from './inputs.js';

const blockFormats = ['Q4_0', 'Q4_1', 'Q5_0', 'Q5_1', 'Q8_0', 'Q4_K', 'Q5_K', 'Q6_K'];
/** One row, few and many: each goes another way. */
const rowCounts = [1, 2, 3, 5, 17, 70];

export function blocksSuite(mx: Mx): void {
  describe('blocks', () => {
    const golden = readTensorFixture('gguf_blocks.safetensors');
    const cases = blockFormats.flatMap((format) =>
      ['raw', 'w_raw']
        .filter((raw) => golden.tensors.has(`${format}.${raw}`))
        .map(
          (raw) =>
            [
              format,
              golden.tensor(`${format}.${raw}`),
              `${format}.${raw === 'raw' ? '' : 'w_'}dequant`,
            ] as const,
        ),
    );
    const bytesOf = ({ data, shape }: FixtureTensor) => mx.array(data, shape);

    test.each(cases)('%s products', (format, blocks, dequantName) => {
      const w = golden.tensor(dequantName) as Weights;
      for (const rows of rowCounts) {
        const x = numbers([rows, w.shape[1]], rows);
        const { values, sizes } = product(x, w);
        mx.tidy(() => {
          const codes = bytesOf(blocks);
          const exact = mx.blockLinear(arrayOf(mx, x), codes, format).dataSync();
          expectWithin(
            exact,
            values,
            sizes.map((size) => 2e-6 * size),
          );
          const fast = mx.blockLinear(arrayOf(mx, x), codes, format, null, 'fast').dataSync();
          const bounds = fastBounds(x, w);
          expectWithin(
            fast,
            values,
            sizes.map((size, i) => 2e-5 * size + bounds[i]),
          );
        });
      }
    });

    test.each(cases)('%s rows', (format, blocks, dequantName) => {
      const w = golden.tensor(dequantName);
      const range = Array.from(w.data as Float32Array, Math.abs);
      mx.tidy(() => {
        const ids = mx.array([3, 0, -3], undefined, 'int32');
        const rows = mx.blockTake(bytesOf(blocks), ids, format);
        expect(rows.shape).toEqual([3, w.shape[1]]);
        const expected = [3, 0, 1].flatMap((row) =>
          Array.from(w.data.slice(row * w.shape[1], (row + 1) * w.shape[1]), Number),
        );
        const tolerance = 1e-6 * Math.max(...range);
        expectWithin(
          rows.dataSync(),
          expected,
          expected.map(() => tolerance),
        );
      });
    });

    test.each(cases)(
      '%s, unaligned, x strided and with more axes, with bias',
      (format, blocks, name) => {
        const w = golden.tensor(name) as Weights;
        const x = numbers([2, 3, w.shape[1]], 4);
        const bias = numbers([4], 5);
        const { values, sizes } = product(x, w);
        mx.tidy(() => {
          for (const codes of unaligned(
            mx,
            [0, 1, 2].map(() => bytesOf(blocks)),
          )) {
            const y = mx.blockLinear(stridedArrayOf(mx, x), codes, format, arrayOf(mx, bias));
            expect(y.shape).toEqual([2, 3, 4]);
            expectWithin(
              y.dataSync(),
              values.map((value, i) => value + bias.data[i % 4]),
              sizes.map((size) => 2e-6 * (size + 2)),
            );
          }
        });
      },
    );

    test.each(['exact', 'fast'] as const)(
      'rows go to the experts that ids name, %s',
      (precision) => {
        const blocks = golden.tensor('Q4_K.raw');
        const x = numbers([5, 1, 768], 6);
        mx.tidy(() => {
          const experts = mx.reshape(bytesOf(blocks), [2, 2, blocks.shape[1]]);
          const ids = mx.array(
            [
              [1, 0],
              [1, 1],
              [0, 0],
              [-1, 0],
              [0, 1],
            ],
            undefined,
            'int32',
          );
          const got = mx.blockGatherLinear(arrayOf(mx, x), experts, ids, 'Q4_K', precision);
          expect(got.shape).toEqual([5, 2, 2]);
          const all = mx.blockLinear(arrayOf(mx, x), bytesOf(blocks), 'Q4_K', null, precision);
          const rows = mx.broadcastTo(mx.reshape(all, [5, 1, 2, 2]), [5, 2, 2, 2]);
          const chosen = mx.takeAlongAxis(rows, mx.reshape(mx.remainder(ids, 2), [5, 2, 1, 1]), 2);
          // One row and several go other ways, so their roundings differ.
          const { sizes } = product(x, golden.tensor('Q4_K.dequant') as Weights);
          const tolerance = 2e-6 * Math.max(...sizes);
          const expected = Array.from(mx.reshape(chosen, [5, 2, 2]).dataSync(), Number);
          expectWithin(
            got.dataSync(),
            expected,
            expected.map(() => tolerance),
          );
        });
      },
    );
  });

  describe('dense blocks', () => {
    test.each(['F32', 'F16', 'BF16'])('%s products and rows', (format) => {
      for (const depth of [1, 7, 33, 100]) {
        mx.tidy(() => {
          const dtype = { F32: 'float32', F16: 'float16', BF16: 'bfloat16' } as const;
          const stored = arrayOf(mx, numbers([5, depth], depth)).astype(dtype[format as 'F32']);
          const w = { data: stored.dataSync() as Float32Array, shape: [5, depth] };
          const codes = stored.view('uint8');
          for (const rows of [1, 3, 20]) {
            const x = numbers([rows, depth], rows);
            const { values, sizes } = product(x, w);
            const y = mx.blockLinear(arrayOf(mx, x), codes, format).dataSync();
            expectWithin(
              y,
              values,
              sizes.map((size) => 2e-6 * size),
            );
          }
          const ids = mx.array([2], undefined, 'uint32');
          const row = mx.blockTake(codes, ids, format).dataSync();
          expectNumbers(row, w.data.subarray(2 * depth, 3 * depth), 0);
        });
      }
    });
  });
}
