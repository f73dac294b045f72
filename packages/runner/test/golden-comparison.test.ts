import { compareFloats, compareIntegers, type ComparableTensor } from '@mlx-runners/runner';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

function tensor(data: number[] | BigInt64Array, shape: number[] = [data.length]) {
  return { shape, data };
}

describe('compareFloats', () => {
  test('the error is relative to the range of the reference', async () => {
    const result = await compareFloats('x', tensor([-10, 10.001]), tensor([-10, 10]));
    expect(result).toMatchObject({ tensor: 'x', kind: 'float', ok: true, tolerance: 1e-4 });
    expect(result.maxError).toBeCloseTo(0.001 / 20, 8);
    expect(result.absoluteError).toBeCloseTo(0.001, 8);
  });

  test.each([
    ['within', 0.0099, true],
    ['past', 0.0101, false],
  ])('%s the tolerance given', async (_, error, ok) => {
    expect(await compareFloats('x', tensor([0, 1 + error]), tensor([0, 1]), 0.01)).toMatchObject({
      ok,
    });
  });

  test.each<[string, number[], number[]]>([
    ['NaN', [0, NaN], [0, 1]],
    ['NaN where the reference has NaN', [0, NaN], [0, NaN]],
    ['infinity', [0, Infinity], [0, 1]],
    ['the other infinity', [0, Infinity], [0, -Infinity]],
    ['a number for infinity', [0, 1], [0, Infinity]],
  ])('%s never passes, whatever the tolerance', async (_, actual, expected) => {
    const result = await compareFloats('x', tensor(actual), tensor(expected), 1e9);
    expect(result).toMatchObject({ ok: false, maxError: Infinity });
    expect(result.note).toBe(`${actual[1]} at [1], expected ${expected[1]}`);
  });

  test('equal infinities pass, and are no part of the range', async () => {
    const expected = tensor([-Infinity, 0, 2]);
    const result = await compareFloats('x', tensor([-Infinity, 0, 2.1]), expected);
    expect(result.maxError).toBeCloseTo(0.05, 6);
    expect((await compareFloats('x', expected, expected)).ok).toBe(true);
  });

  test('another shape fails with both shapes, also with as many elements', async () => {
    const result = await compareFloats('x', tensor([1, 2], [1, 2]), tensor([1, 2], [2, 1]));
    expect(result).toMatchObject({ ok: false, note: 'shape [1, 2], expected [2, 1]' });
  });

  test('a constant reference is held to its magnitude, zeros to 1', async () => {
    expect((await compareFloats('x', tensor([4.04]), tensor([4]))).maxError).toBeCloseTo(0.01, 6);
    expect((await compareFloats('x', tensor([-4.04]), tensor([-4]))).maxError).toBeCloseTo(0.01);
    expect((await compareFloats('x', tensor([0.01]), tensor([0]))).maxError).toBeCloseTo(0.01, 6);
  });

  test('arrays that are evaluated on demand are awaited', async () => {
    const values = new Float32Array([1, 2]);
    const lazy: ComparableTensor = { shape: [2], data: () => Promise.resolve(values) };
    expect((await compareFloats('x', lazy, tensor([1, 2]))).ok).toBe(true);
  });

  test('no error above the tolerance passes, none below it fails', async () => {
    const values = fc.array(fc.float({ min: -100, max: 100, noNaN: true }), {
      minLength: 2,
      maxLength: 20,
    });
    await fc.assert(
      fc.asyncProperty(
        values,
        fc.nat(),
        fc.double({ min: 0, max: 1, noNaN: true }),
        async (reference, position, error) => {
          const range = Math.max(...reference) - Math.min(...reference);
          fc.pre(range > 1e-3);
          const actual = reference.map((x, i) =>
            i === position % reference.length ? x + error * range : x,
          );
          const pass = (await compareFloats('x', tensor(actual), tensor(reference), 0.1)).ok;
          fc.pre(Math.abs(error - 0.1) > 1e-6);
          expect(pass).toBe(error < 0.1);
        },
      ),
    );
  });
});

describe('compareIntegers', () => {
  test('equal ids pass, in whatever integer type', async () => {
    const result = await compareIntegers(
      'ids',
      tensor([1, 2]),
      tensor(new BigInt64Array([1n, 2n])),
    );
    expect(result).toEqual({ tensor: 'ids', kind: 'integer', maxError: 0, tolerance: 0, ok: true });
  });

  test('the first difference is named, and all are counted', async () => {
    const result = await compareIntegers(
      'ids',
      tensor([1, 2, 9, 8], [2, 2]),
      tensor([1, 2, 3, 4], [2, 2]),
    );
    expect(result).toMatchObject({ ok: false, maxError: 2, note: '9 at [1, 0], expected 3' });
  });

  test('another shape fails with both shapes', async () => {
    const result = await compareIntegers('ids', tensor([1]), tensor([1, 2]));
    expect(result).toMatchObject({ ok: false, note: 'shape [1], expected [2]' });
    const greedy = { margins: tensor([0.1]), numericError: 1 };
    expect(await compareIntegers('ids', tensor([1, 2]), tensor([1, 2]), greedy)).toMatchObject({
      ok: false,
      note: 'shape [1], expected [2]',
    });
  });

  describe('with margins', () => {
    const expected = tensor([5, 6, 7, 1, 2, 3], [2, 3]);
    const greedy = {
      margins: tensor([0.5, 0.001, 0.5, 0.5, 0.5, 0.5], [2, 3]),
      numericError: 0.01,
    };

    test('a row may leave the reference where the margin is below the numeric error', async () => {
      const actual = tensor([5, 9, 9, 1, 2, 3], [2, 3]);
      expect(await compareIntegers('ids', actual, expected, greedy)).toMatchObject({
        ok: true,
        maxError: 2,
        note: '9 at [0, 1], expected 6; the margin there, 0.0010, is below the numeric error 0.010',
      });
    });

    test('but not earlier, and no other row', async () => {
      const earlier = tensor([9, 9, 9, 1, 2, 3], [2, 3]);
      expect(await compareIntegers('ids', earlier, expected, greedy)).toMatchObject({
        ok: false,
        note: '9 at [0, 0], expected 5; the margin there, 0.50, is not below the numeric error 0.010',
      });
      const otherRow = tensor([5, 9, 9, 1, 2, 9], [2, 3]);
      expect(await compareIntegers('ids', otherRow, expected, greedy)).toMatchObject({
        ok: false,
        note: expect.stringContaining('9 at [1, 2], expected 3') as string,
      });
    });
  });
});
