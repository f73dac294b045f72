/**
 * Tensors of files that align nothing (CTranslate2's, other writers' safetensors) are used where they
 * lie. So every op has to take operands from any byte.
 */
import { mx, MlxRunnersError, MxArray, type Dtype } from '@mlx-runners/mlx-core';
import { describe, expect, test } from 'vitest';
import { opRows } from '../src/call.js';
import { dtypeNames } from '../src/dtype.js';
import { native } from '../src/native.js';
import { expectArray, type Nested } from './expectations.js';
import { opCases } from './op-cases.js';
import { unaligned } from './unaligned-arrays.js';

type AnyOp = (...args: never[]) => MxArray | MxArray[];
type UntypedOp = (...args: readonly unknown[]) => MxArray | MxArray[];
const ops = mx as unknown as Record<string, UntypedOp>;

/** Arguments of an op with all arrays replaced, also those in lists. */
function withUnaligned(args: readonly unknown[]): unknown[] {
  const arrays = args.flat().filter((arg) => arg instanceof MxArray);
  const replaced = new Map(unaligned(mx, arrays).map((array, i) => [arrays[i], array]));
  const replace = (arg: unknown): unknown =>
    arg instanceof MxArray ? replaced.get(arg) : Array.isArray(arg) ? arg.map(replace) : arg;
  return args.map(replace);
}

describe.each(Object.keys(opCases))('%s', (name) => {
  test.each(opCases[name].map((each, i) => [i + 1, each] as const))(
    'case %d',
    (_, { args, gives, dtype, tolerance }) => {
      mx.tidy(() => {
        const result = ops[name](...withUnaligned(args()));
        const results = Array.isArray(result) ? result : [result];
        const expected = Array.isArray(result) ? (gives as readonly Nested[]) : [gives];
        expect(results).toHaveLength(expected.length);
        results.forEach((array, i) => expectArray(array, expected[i], { dtype, tolerance }));
      });
    },
  );
});

/** Enough elements for the loops that compilers vectorise, with a rest. */
const length = 1031;

/** Small numbers that differ, all of them positive. */
function many(shape: readonly number[], dtype: Dtype): MxArray {
  const size = shape.reduce((product, each) => product * each, 1);
  return mx.array(
    Float64Array.from({ length: size }, (_, i) => 1 + ((i * 7) % 13)),
    shape,
    dtype,
  );
}

/** Shapes and bytes that a call gives, or the code of the error with which it refuses such arguments. */
function outcome(call: () => MxArray | MxArray[]): (string | Buffer)[] {
  try {
    return mx.tidy(() =>
      [call()]
        .flat()
        .flatMap((x) => [x.summary(), Buffer.from(native().bytes(x.idFor('the test')))]),
    );
  } catch (error) {
    if (error instanceof MlxRunnersError) return [error.code];
    return [(error as { code: string }).code];
  }
}

/** Whatever comes of a call must not depend on where its operands lie. */
function expectSame(op: UntypedOp, args: readonly unknown[], name: string): void {
  mx.tidy(() => {
    const replaced = withUnaligned(args);
    const expected = outcome(() => op(...args));
    const actual = outcome(() => op(...replaced));
    expect(actual.length, name).toBe(expected.length);
    for (const [i, part] of actual.entries()) {
      const same =
        typeof part === 'string' ? part === expected[i] : part.equals(expected[i] as Buffer);
      expect(same, name).toBe(true);
    }
  });
}

const arrayKind = 0;
const onlyArrays = opRows()
  .map(({ name, params }) => ({ name, needed: params.filter(({ optional }) => !optional) }))
  .filter(({ needed }) => needed.every(({ kind }) => kind === arrayKind));

describe('long arrays of every dtype', () => {
  test('most ops take nothing but arrays', () => expect(onlyArrays.length).toBeGreaterThan(80));

  test.each(dtypeNames.map((dtype) => [dtype]))('%s', (dtype) => {
    for (const { name, needed } of onlyArrays) {
      const args = needed.map(() => mx.tidy(() => many([length], dtype)));
      expectSame(ops[name], args, name);
      for (const each of args) each.dispose();
    }
  });
});

const floats: Dtype[] = ['float32', 'float16', 'bfloat16', 'float64', 'complex64'];

describe.each(floats)('%s', (dtype) => {
  const array = (...shape: number[]): MxArray => many(shape, dtype);

  test.each<[string, AnyOp, () => unknown[]]>([
    ['matmul', mx.matmul, () => [array(33, 65), array(65, 47)]],
    ['vector by matrix', mx.matmul, () => [array(1, 129), array(129, 67)]],
    ['matrix by vector', mx.matmul, () => [array(67, 129), array(129)]],
    ['batched matmul', mx.matmul, () => [array(2, 17, 33), array(2, 33, 19)]],
    ['addmm', mx.addmm, () => [array(33, 47), array(33, 65), array(65, 47)]],
    ['linear', mx.linear, () => [array(5, 129), array(67, 129), array(67)]],
    ['conv1d', mx.conv1d, () => [array(1, 50, 17), array(19, 3, 17)]],
    ['layerNorm', mx.layerNorm, () => [array(3, 129), array(129), array(129)]],
    ['softmax of rows', mx.softmax, () => [array(3, 129), -1]],
    [
      'attention',
      mx.scaledDotProductAttention,
      () => [array(1, 2, 5, 64), array(1, 2, 33, 64), array(1, 2, 33, 64), 0.125],
    ],
    ['sum of columns', mx.sum, () => [array(129, 33), 0]],
    ['cumsum', mx.cumsum, () => [array(5, 129), 1]],
    ['sort', mx.sort, () => [array(length)]],
    ['strided copies', mx.contiguous, () => [mx.tidy(() => array(129, 33).transpose())]],
    ['concatenate', mx.concatenate, () => [[array(7, 33), array(9, 33)]]],
    ['astype', mx.astype, () => [array(length), 'float32']],
    ['take', mx.take, () => [array(67, 33), mx.array([3, 66, 0], undefined, 'int32'), 0]],
  ])('%s', (name, op, args) => {
    mx.tidy(() => expectSame(op as UntypedOp, args(), name));
  });
});
