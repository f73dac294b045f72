import { CheckpointError, DtypeError, mx, ShapeError, type MxArray } from '@mlx-runners/mlx-core';
import { readTensorFixture } from '@mlx-runners/test-fixtures';
import { describe, expect, test } from 'vitest';
import { thrown } from './expectations.js';

const goldens = readTensorFixture('gguf_blocks.safetensors');
const formats = ['Q4_0', 'Q4_1', 'Q5_0', 'Q5_1', 'Q8_0', 'Q4_K', 'Q5_K', 'Q6_K'];
const withQuantiser = formats.filter((format) => !format.endsWith('K'));

function golden(name: string): MxArray {
  const { data, shape } = goldens.tensor(name);
  return mx.array(data, shape);
}

function bits(x: MxArray): Uint32Array {
  const data = x.dataSync() as Float32Array;
  return new Uint32Array(data.buffer, data.byteOffset, data.length);
}

describe('as gguf-py, to the bit', () => {
  test.each(formats)('%s is dequantised', (format) => {
    mx.tidy(() => {
      const weights = mx.blockDequantize(golden(`${format}.raw`), format);
      expect(weights.shape).toEqual([4, 768]);
      expect(bits(weights)).toEqual(bits(golden(`${format}.dequant`)));
    });
  });

  test.each(withQuantiser)('%s is quantised', (format) => {
    mx.tidy(() => {
      const blocks = mx.blockQuantize(golden(`${format}.w`), format);
      expect(blocks.shape).toEqual(goldens.tensor(`${format}.w_raw`).shape);
      expect(blocks.dataSync()).toEqual(goldens.tensor(`${format}.w_raw`).data);
      expect(bits(mx.blockDequantize(blocks, format))).toEqual(bits(golden(`${format}.w_dequant`)));
    });
  });
});

/** All numbers of 16 bits. */
const all16 = Uint16Array.from({ length: 65536 }, (_, i) => i);
const bytesOf = (data: Uint16Array | Float32Array): Uint8Array => new Uint8Array(data.buffer);

describe.each([
  ['F16', 10],
  ['BF16', 7],
] as const)('%s', (format, fractionBits) => {
  const dtype = format === 'F16' ? 'float16' : 'bfloat16';
  const exponent = 0x7fff & ~((1 << fractionBits) - 1);
  const isNan = (number: number): boolean => (number & 0x7fff) > exponent;
  const quantised = (x: MxArray): Uint16Array => {
    const data = mx.blockQuantize(x, format).dataSync();
    return new Uint16Array(data.buffer, data.byteOffset, data.length / 2);
  };

  test('every number of 16 bits is widened to its value, and comes back', () => {
    mx.tidy(() => {
      const widened = mx.blockDequantize(mx.array(bytesOf(all16)), format);
      const expected = mx.fromBytes(bytesOf(all16), [65536], dtype).astype('float32');
      expect(widened.dataSync()).toEqual(expected.dataSync());
      const back = quantised(widened);
      expect(all16.filter((number) => !isNan(number) && back[number] !== number)).toEqual(
        new Uint16Array(),
      );
      expect(all16.filter((number) => isNan(number) && !isNan(back[number]))).toHaveLength(0);
    });
  });

  test('numbers between two are rounded to the nearer one, ties to the even one', () => {
    mx.tidy(() => {
      const widened = mx
        .blockDequantize(mx.array(bytesOf(all16)), format)
        .dataSync() as Float32Array;
      const last = exponent - 1; // the largest finite number
      const low = Array.from({ length: last }, (_, i) => i);
      const between = (part: number): MxArray =>
        mx.array(Float32Array.from(low, (i) => widened[i] + (widened[i + 1] - widened[i]) * part));
      const up = low.map((i) => i + 1);
      expect(Array.from(quantised(between(0.4375)))).toEqual(low);
      expect(Array.from(quantised(between(0.5625)))).toEqual(up);
      expect(Array.from(quantised(between(0.5)))).toEqual(low.map((i) => i + (i % 2)));
      expect(Array.from(quantised(mx.negative(between(0.5))))).toEqual(
        low.map((i) => (i + (i % 2)) | 0x8000),
      );
    });
  });

  test('what is too large becomes infinite', () => {
    mx.tidy(() => {
      const largest = 3.4028234e38;
      expect(Array.from(quantised(mx.array([Infinity, -Infinity, largest, -largest])))).toEqual([
        exponent,
        exponent | 0x8000,
        exponent,
        exponent | 0x8000,
      ]);
    });
  });
});

test('F32 blocks are the bytes of the numbers', () => {
  mx.tidy(() => {
    const numbers = Float32Array.of(0, -0, 1e-45, NaN, Infinity, 3.14);
    const blocks = mx.blockQuantize(mx.array(numbers), 'F32');
    expect(blocks.dataSync()).toEqual(bytesOf(numbers));
    expect(mx.blockDequantize(blocks, 'F32').dataSync()).toEqual(numbers);
  });
});

/** Root of the mean squared error, relative to that of the weights. */
function error(weights: MxArray, format: string): number {
  return mx.tidy(() => {
    const back = mx.blockDequantize(mx.blockQuantize(weights, format), format);
    const squares = (x: MxArray): number => x.square().mean().itemSync();
    return Math.sqrt(squares(back.subtract(weights)) / squares(weights));
  });
}

describe('quantisers of the K types', () => {
  const shape = [64, 1024];
  const weights: Record<string, () => MxArray> = {
    normal: () => mx.randomNormal(mx.randomKey(1), shape),
    'tiny ones': () => mx.randomNormal(mx.randomKey(1), shape).multiply(1e-3),
    uniform: () => mx.randomUniform(mx.randomKey(2), shape, -1, 1),
    'heavy-tailed': () => mx.randomNormal(mx.randomKey(3), shape).power(3),
    'all positive': () => mx.randomUniform(mx.randomKey(4), shape),
    'all negative': () => mx.randomUniform(mx.randomKey(4), shape).negative(),
  };

  // Bits for each weight: Q4_K 4.5, Q4_1 5, Q5_K 5.5, Q5_1 6, Q6_K 6.56, Q8_0 8.5.
  test.each(Object.keys(weights))('%s weights come back better than from plain types', (name) => {
    mx.tidy(() => {
      const x = weights[name]();
      expect(error(x, 'Q4_K')).toBeLessThan(error(x, 'Q4_1'));
      expect(error(x, 'Q5_K')).toBeLessThan(error(x, 'Q5_1'));
      expect(error(x, 'Q6_K')).toBeLessThan(error(x, 'Q5_K') / 1.1);
      expect(error(x, 'Q6_K')).toBeLessThan(4 * error(x, 'Q8_0'));
    });
  });

  test.each(['Q4_K', 'Q5_K', 'Q6_K'])(
    '%s keeps zeros, and a group of one value nearly',
    (format) => {
      mx.tidy(() => {
        const zeros = mx.zeros([2, 256]);
        expect(mx.blockDequantize(mx.blockQuantize(zeros, format), format).dataSync()).toEqual(
          new Float32Array(512),
        );
        for (const value of [3, -3]) {
          expect(error(mx.full([1, 512], value), format)).toBeLessThan(0.02);
        }
      });
    },
  );

  test.each(formats)('%s takes numbers that are not finite or tiny beyond measure', (format) => {
    mx.tidy(() => {
      const odd = [NaN, Infinity, -Infinity, 1e-45, -1e-40, 3e38, -3e38, 0];
      const x = mx.array(Float32Array.from({ length: 512 }, (_, i) => odd[(i * 7) % 8]));
      expect(mx.blockQuantize(x, format).dataSync()).toHaveLength(
        mx.blockQuantize(mx.zeros([512]), format).nbytes,
      );
    });
  });
});

describe('arrays', () => {
  test.each([...formats, 'F32', 'F16', 'BF16'])('%s of any shape, also views', (format) => {
    mx.tidy(() => {
      const x = mx.randomNormal(mx.randomKey(5), [2, 3, 512]);
      const blocks = mx.blockQuantize(x, format);
      const [rowBytes] = mx.blockQuantize(mx.zeros([512]), format).shape;
      expect(blocks.shape).toEqual([2, 3, rowBytes]);
      const whole = mx.blockDequantize(blocks, format);
      expect(whole.shape).toEqual([2, 3, 512]);
      const part = mx.blockDequantize(blocks.slice([0, 1, 0], [2, 2, rowBytes]), format);
      expect(part.dataSync()).toEqual(whole.slice([0, 1, 0], [2, 2, 512]).dataSync());
      const turned = mx.blockQuantize(x.transpose([1, 0, 2]), format);
      expect(turned.dataSync()).toEqual(mx.contiguous(blocks.transpose([1, 0, 2])).dataSync());
      const rows = mx.take(blocks.reshape([6, rowBytes]), mx.array([4, 0], [2], 'int32'), 0);
      expect(mx.blockDequantize(rows, format).dataSync().slice(512)).toEqual(
        whole.slice([0, 0, 0], [1, 1, 512]).dataSync(),
      );
    });
  });

  test('without elements', () => {
    mx.tidy(() => {
      expect(mx.blockQuantize(mx.zeros([0, 256]), 'Q4_K').shape).toEqual([0, 144]);
      expect(mx.blockDequantize(mx.zeros([3, 0], 'uint8'), 'Q8_0').shape).toEqual([3, 0]);
      expect(mx.blockDequantize(mx.zeros([3, 0], 'uint8'), 'Q8_0').dataSync()).toHaveLength(0);
    });
  });

  test('of other floating-point dtypes are quantised as float32', () => {
    mx.tidy(() => {
      const x = mx.randomNormal(mx.randomKey(6), [64]).astype('bfloat16');
      expect(mx.blockQuantize(x, 'Q4_0').dataSync()).toEqual(
        mx.blockQuantize(x.astype('float32'), 'Q4_0').dataSync(),
      );
    });
  });

  test.each<[string, () => unknown, new (message: string) => Error, RegExp]>([
    [
      'rows of a part of a block',
      () => mx.blockQuantize(mx.zeros([2, 100]), 'Q4_0'),
      ShapeError,
      /rows of 100 weights aren't whole blocks: those of Q4_0 have 32/,
    ],
    [
      'a K type’s rows',
      () => mx.blockQuantize(mx.zeros([32]), 'Q6_K'),
      ShapeError,
      /Q6_K have 256/,
    ],
    [
      'bytes of a part of a block',
      () => mx.blockDequantize(mx.zeros([35], 'uint8'), 'Q8_0'),
      ShapeError,
      /rows of 35 bytes .*Q8_0 have 34/,
    ],
    ['a number', () => mx.blockDequantize(mx.zeros([], 'uint8'), 'Q8_0'), ShapeError, /row/],
    [
      'other dtypes than bytes',
      () => mx.blockDequantize(mx.zeros([34]), 'Q8_0'),
      DtypeError,
      /uint8/,
    ],
    [
      'integers',
      () => mx.blockQuantize(mx.zeros([32], 'int32'), 'Q8_0'),
      DtypeError,
      /w has to be of dtype float32, float16 or bfloat16/,
    ],
    [
      'an unknown format',
      () => mx.blockQuantize(mx.zeros([32]), 'IQ4_NL'),
      DtypeError,
      /F32, F16, BF16, Q4_0/,
    ],
  ])('%s are an error', (_, call, Class, message) => {
    const found = thrown(call);
    expect(found).toBeInstanceOf(Class);
    expect(found).not.toBeInstanceOf(CheckpointError);
    expect(found.message).toMatch(message);
    expect(found.message).toMatch(/^block(Dequ|Qu)antize\(/);
  });
});
