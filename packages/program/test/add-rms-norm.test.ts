import { mx, type MxArray } from '@mlx-runners/mlx-core';
import { fuseAddRmsNorm, type Method } from '@mlx-runners/program';
import { expect, test } from 'vitest';
import { normal } from './models.js';
import { sameWith } from './optimised.js';

const weight = normal(1, [64]);
const fused = (run: Method['run']): Promise<string[]> => sameWith([fuseAddRmsNorm], run);

test('a sum and its norm become one, whoever reads the sum later', async () => {
  const ops = await fused(({ x }) => {
    const sum = x.add(x.tanh());
    return { y: sum.rmsNorm(weight, 1e-6).add(sum), sum };
  });
  expect(ops).toEqual(['tanh', 'addRmsNorm', 'add']);
});

test('from layer to layer', async () => {
  const ops = await fused(({ x }) => {
    let y = x;
    for (let i = 0; i < 3; i++) y = y.add(y.rmsNorm(weight).tanh());
    return { y: y.rmsNorm() };
  });
  expect(ops).toEqual([
    ...['rmsNorm', 'tanh', 'addRmsNorm', 'tanh', 'addRmsNorm', 'tanh', 'addRmsNorm'],
  ]);
});

test('of other dtypes too', async () => {
  const ops = await fused(({ x }) => {
    const halves = x.astype('bfloat16');
    const sum = halves.add(halves.tanh());
    const norm = sum.rmsNorm(weight.astype('bfloat16'));
    return { y: norm.astype('float32'), sum: sum.astype('float32') };
  });
  expect(ops).toContain('addRmsNorm');
});

test.each<[string, (x: MxArray) => MxArray]>([
  [
    'something is read of the sum before',
    (x) => {
      const sum = x.add(x.tanh());
      const square = sum.square();
      return sum.rmsNorm().add(square);
    },
  ],
  ['what is added has another shape', (x) => x.add(weight).rmsNorm()],
  ['a number is added', (x) => x.add(1).rmsNorm()],
  ['the dtypes differ', (x) => x.add(x.astype('float16')).rmsNorm()],
  [
    'the sum is its own weight',
    (x) => {
      const sum = weight.add(mx.tanh(weight));
      return x.add(sum.rmsNorm(sum));
    },
  ],
])('not where %s', async (_, run) => {
  const ops = await fused(({ x }) => ({ y: run(x) }));
  expect(ops).toContain('rmsNorm');
  expect(ops).not.toContain('addRmsNorm');
});
