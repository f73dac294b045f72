import { mx, type MxArray } from '@mlx-runners/mlx-core';
import {
  compileModel,
  mergePackedLinears,
  shareCommonSubexpressions,
  type Method,
} from '@mlx-runners/program';
import { describe, expect, test } from 'vitest';
import { normal } from './models.js';
import { blocksOf, sameWith } from './optimised.js';

const [q, k, v] = [64, 32, 32].map((rows, i) => blocksOf(i, rows, 'Q4_1'));
const other = blocksOf(3, 32, 'Q8_0');
const biases = [64, 32, 32].map((rows, i) => normal(10 + i, [rows]));
const merged = (run: Method['run']): Promise<string[]> => sameWith([mergePackedLinears], run);
const project = (x: MxArray, w: MxArray, bias: MxArray | null = null): MxArray =>
  mx.blockLinear(x, w, 'Q4_1', bias);

describe('blocks', () => {
  test('of one input become one', async () => {
    const ops = await merged(({ x }) => ({ q: project(x, q), k: project(x, k), v: project(x, v) }));
    expect(ops).toEqual(['blockLinears']);
  });

  test('with biases, in the place of the first', async () => {
    const ops = await merged(({ x }) => {
      const heads = project(x, q, biases[0]).tanh();
      return { heads, k: project(x, k, biases[1]), v: project(x, v, biases[2]) };
    });
    expect(ops).toEqual(['blockLinears', 'tanh']);
  });

  test('in fast precision', async () => {
    const ops = await merged(({ x }) => ({
      q: mx.blockLinear(x, q, 'Q4_1', null, 'fast'),
      k: mx.blockLinear(x, k, 'Q4_1', null, 'fast'),
    }));
    expect(ops).toEqual(['blockLinears']);
  });

  test.each<[string, (x: MxArray) => Record<string, MxArray>]>([
    ['inputs', (x) => ({ q: project(x, q), k: project(x.tanh(), k) })],
    ['formats', (x) => ({ q: project(x, q), k: mx.blockLinear(x, other, 'Q8_0') })],
    ['precisions', (x) => ({ q: project(x, q), k: mx.blockLinear(x, k, 'Q4_1', null, 'fast') })],
    ['parts', (x) => ({ q: project(x, q), k: project(x, k, biases[1]) })],
  ])('of two %s stay', async (_, run) => {
    const ops = await merged(({ x }) => run(x));
    expect(ops.filter((op) => op === 'blockLinear')).toHaveLength(2);
  });

  test('that are computed stay', async () => {
    const ops = await merged(({ x }) => ({
      q: project(x, q),
      k: project(x, k.add(mx.array(0, null, 'uint8'))),
    }));
    expect(ops).not.toContain('blockLinears');
  });

  test('far from one another stay, so that results are not held', async () => {
    const ops = await merged(({ x }) => {
      let y = project(x, q);
      for (let i = 0; i < 16; i++) y = y.tanh();
      return { y, k: project(x, k), v: project(x, v) };
    });
    expect(ops.filter((op) => op !== 'tanh')).toEqual(['blockLinear', 'blockLinears']);
  });

  test('may have other readers', async () => {
    const ops = await sameWith([shareCommonSubexpressions, mergePackedLinears], ({ x }) => {
      const row = mx.blockTake(k, mx.array([0], null, 'int32'), 'Q4_1');
      return { q: project(x, q), k: project(x, k), again: project(x.add(row), k) };
    });
    expect(ops.filter((op) => op.startsWith('blockLinear'))).toEqual([
      'blockLinears',
      'blockLinear',
    ]);
  });
});

test.each([
  ['affine', 64, 4],
  ['affine', 32, 8],
  ['nvfp4', 16, 4],
] as const)(
  'matrices that MLX has packed, in mode %s, groups of %d, %d bits',
  async (...packing) => {
    const [mode, groupSize, bits] = packing;
    const [one, two] = [q, k].map(({ shape: [rows] }, i) => {
      const parts = mx.quantize(normal(20 + i, [rows, 64]), groupSize, bits, mode);
      mx.evalSync(...parts);
      return parts;
    });
    const linear = (x: MxArray, [w, scales, offsets]: readonly MxArray[], bias: MxArray): MxArray =>
      mx.quantizedLinear(x, w, scales, offsets, bias, groupSize, bits, mode);
    const ops = await merged(({ x }) => ({
      a: linear(x, one, biases[0]),
      b: linear(x, two, biases[1]),
    }));
    expect(ops).toEqual(['quantizedLinears']);
  },
);

test('are known as packed where an export asks for more', async () => {
  const run: Method = {
    inputs: { x: { dtype: 'float32', shape: [1, 64] } },
    run: ({ x }) => ({ q: project(x, q), k: project(x, k) }),
  };
  const description = {
    model: { id: 'test/packed' },
    dtype: 'float32' as const,
    methods: { run },
    parameters: new Map([
      ['q', q],
      ['k', k],
    ]),
    qlinear: { type: '4w' as const },
  };
  await expect(compileModel(description)).rejects.toThrow('are packed already, as Q4_1');
});
