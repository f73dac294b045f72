/** Calls that a getter interferes with, views with gaps, odd dtypes, and empty arrays of odd layout. */
import { DtypeError, mx, ShapeError, type MxArray } from '@mlx-runners/mlx-core';
import { describe, expect, test } from 'vitest';
import { expectArray, thrown } from './expectations.js';
import { plainPackage } from './plain-package.js';

/** A list whose first element comes from a getter. */
function withGetter(list: number[], getter: () => number): number[] {
  return Object.defineProperty(list, 0, { get: getter });
}

test('an op called by a getter in a list leaves the arguments of the outer one alone', () => {
  mx.tidy(() => {
    const other = mx.array([8, 8, 8, 8]);
    const shape = withGetter([2, 2], () => {
      other.add(1);
      return 2;
    });
    expectArray(mx.reshape(mx.array([1, 2, 3, 4]), shape), [
      [1, 2],
      [3, 4],
    ]);
  });
});

test('a getter among the sizes can’t take the bytes away while they are read', () => {
  const buffer = new ArrayBuffer(1 << 20);
  const shape = withGetter([1 << 20], () => {
    structuredClone(buffer, { transfer: [buffer] });
    return 1 << 20;
  });
  const error = thrown(() => mx.fromBytes(new Uint8Array(buffer), shape, 'uint8'));
  expect(error).toBeInstanceOf(ShapeError);
});

describe('computed indices in a view with gaps', () => {
  const view = (values: number[]) => {
    const gaps = mx.slice(mx.array(values, null, 'int32'), [0], [values.length], [2]);
    mx.evalSync(gaps);
    return gaps;
  };

  test('are checked, and what lies in the gaps is not', () => {
    mx.tidy(() => {
      const x = mx.arange(0, 10);
      expectArray(mx.take(x, view([1, 500_000_000, -1, -500_000_000])), [1, 9]);
      for (const outside of [10, -11, 500_000_000]) {
        expect(() => mx.take(x, view([0, 0, outside, 0]))).toThrow(/outside an axis of size 10/);
        expect(() => mx.takeAlongAxis(x, view([0, 0, outside, 0]), 0)).toThrow(/outside an axis/);
        expect(() => mx.putAlongAxis(x, view([0, 0, outside, 0]), mx.array([5, 5]), 0)).toThrow(
          /outside an axis/,
        );
      }
    });
  });
});

test('indices that are computed with what they point into are checked then', async () => {
  const x = mx.arange(0, 10);
  const later = (values: number[]): MxArray => mx.array(values, null, 'int32').add(0);
  for (let i = 0; i < 20; i++) {
    for (const outside of [10 + i, -11 - i, 500_000_000]) {
      const calls = [
        () => mx.take(x, later([0, outside])),
        () => mx.takeAlongAxis(x, later([0, outside]), 0),
        () => mx.putAlongAxis(x, later([0, outside]), mx.array([5, 5]), 0),
      ];
      for (const call of calls) {
        const error = thrown(() => call().dataSync());
        expect(error).toBeInstanceOf(ShapeError);
        expect(error.message).toContain(`the index ${outside} is outside an axis of size 10`);
        await expect(call().data()).rejects.toThrow(ShapeError);
      }
    }
  }
  expectArray(mx.take(x, later([3, -1])), [3, 9]);
  const gaps = later([1, 99, 2, 99]).slice([0], [4], [2]);
  expectArray(mx.take(x, gaps), [1, 2]);
});

describe('sizes beyond what MLX does', () => {
  const refused: Record<string, [() => MxArray, RegExp]> = {
    'a mirrored padding in millions of steps': [
      () => mx.pad(mx.ones([2]), [300_000_000, 0], 0, 'reflect'),
      /an axis of size 2 can't be mirrored to a padding of 300000000/,
    ],
    'more elements than are counted': [
      () => mx.tile(mx.ones([1, 1], 'bool_'), [2, 0x7fffffff]),
      /would have 4294967294 elements, and on the CPU it can have at most 2147483647/,
    ],
    'more elements on the way to a result': [
      () => mx.allclose(mx.ones([65_536, 1], 'bool_'), mx.ones([65_536], 'bool_')),
      /4294967296 elements are more than the CPU reduces at once/,
    ],
  };
  test.each(Object.entries(refused))('%s: a ShapeError', (_, [call, message]) => {
    const { limit } = mx.memory();
    mx.setMemoryLimit(2 ** 50);
    try {
      const error = thrown(() => mx.tidy(call));
      expect(error).toBeInstanceOf(ShapeError);
      expect(error.message).toMatch(message);
    } finally {
      mx.setMemoryLimit(limit);
    }
  });
});

/** Of an array [1, 1, 2, 2] of zeros and ones, and what refuses integers as MLX does. */
const fused: Record<string, { call: (a: MxArray) => MxArray | MxArray[]; refuses?: boolean }> = {
  softmax: { call: (a) => mx.softmax(a, -1) },
  gelu: { call: (a) => mx.gelu(a) },
  layerNorm: { call: (a) => mx.layerNorm(a), refuses: true },
  rmsNorm: { call: (a) => mx.rmsNorm(a), refuses: true },
  addRmsNorm: { call: (a) => mx.addRmsNorm(a, mx.zeros(a.shape, a.dtype)), refuses: true },
  swiglu: { call: (a) => mx.swiglu(a, a) },
  geglu: { call: (a) => mx.geglu(a, a) },
  'geglu by erf': { call: (a) => mx.geglu(a, a, false) },
  rope: { call: (a) => mx.rope(a, 2, false, 100), refuses: true },
  scaledDotProductAttention: {
    call: (a) => mx.scaledDotProductAttention(a, a, a, 1),
    refuses: true,
  },
  attention: { call: (a) => mx.attention(a, a, a, 1, '', null, null, 0, 2), refuses: true },
  linear: { call: (a) => mx.linear(a, mx.reshape(a, [2, 2])), refuses: true },
  'linear with float32': { call: (a) => mx.linear(a, mx.ones([3, 2]), mx.ones([3])) },
};

describe('integers and booleans', () => {
  test.each(Object.entries(fused))('%s', (_, { call, refuses }) => {
    mx.tidy(() => {
      const x = mx.array([1, 0, 1, 1], [1, 1, 2, 2]);
      const valuesOf = (a: MxArray) => {
        const result = call(a);
        return (Array.isArray(result) ? result : [result]).map((each) => each.dataSync());
      };
      for (const dtype of ['int32', 'uint8', 'int64', 'bool_'] as const) {
        const given = x.astype(dtype);
        if (refuses) expect(thrown(() => call(given))).toBeInstanceOf(DtypeError);
        else expect(valuesOf(given)).toEqual(valuesOf(x));
      }
    });
  });

  test('complex numbers in the exact gelu are a DtypeError', () => {
    mx.tidy(() => {
      const x = mx.ones([2], 'complex64');
      expect(thrown(() => mx.gelu(x))).toBeInstanceOf(DtypeError);
      expect(thrown(() => mx.geglu(x, x, false))).toBeInstanceOf(DtypeError);
    });
  });
});

test.each(['float32', 'float16'] as const)('rope of %s at offsets beyond 32 bits', (dtype) => {
  mx.tidy(() => {
    const x = mx.ones([1, 1, 2], dtype);
    const rope = (offset: MxArray) => mx.rope(x, 2, false, 100, 1, offset);
    for (const offset of [
      mx.array(BigInt64Array.of(2n ** 31n)),
      mx.array(BigInt64Array.of(-(2n ** 32n))),
      mx.array(Uint32Array.of(2 ** 31)),
      mx.array(BigUint64Array.of(2n ** 64n - 1n)),
    ]) {
      const error = thrown(() => rope(offset));
      expect(error).toBeInstanceOf(ShapeError);
      expect(error.message).toMatch(/an offset of -?\d+ is outside the range of int32/);
    }
    const last = 2 ** 31 - 1;
    expect(rope(mx.array(BigInt64Array.of(BigInt(last)))).dataSync()).toEqual(
      mx.rope(x, 2, false, 100, 1, last).dataSync(),
    );
  });
});

test.each(['sum', 'prod', 'all', 'any'] as const)('%s of an empty transposed array', (op) => {
  for (let i = 0; i < 10; i++) {
    mx.tidy(() => {
      const empty = mx.zeros([4, 0]).transpose();
      const neutral = op === 'sum' || op === 'any' ? 0 : 1;
      expect(Array.from(mx[op](empty, [0]).dataSync(), Number)).toEqual(Array(4).fill(neutral));
    });
  }
});

test.skipIf(process.platform !== 'linux')('a small product leaves no memory behind', async () => {
  const program = plainPackage();
  const { stdout, stderr } = await program.run(`
    import { readFileSync } from 'node:fs';
    import { mx } from 'mlx-core';
    const resident = () => Number(/VmRSS:\\s*(\\d+)/.exec(readFileSync('/proc/self/status', 'utf8'))[1]);
    const x = mx.ones([1, 8]);
    const w = mx.ones([8, 8]);
    const products = (count) => {
      for (let i = 0; i < count; i += 100) {
        mx.tidy(() => {
          let y = x;
          for (let j = 0; j < 100; j++) y = mx.linear(y, w);
          y.dataSync();
        });
      }
    };
    products(20_000);
    const before = resident();
    products(60_000);
    console.log(resident() - before < 8_000);
  `);
  program.remove();
  expect(stdout + stderr).toBe('true\n');
});
