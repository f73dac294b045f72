import { mx, type MxArray } from '@mlx-runners/mlx-core';
import { inspectExport, loadExport, type Method } from '@mlx-runners/program';
import { expect, test } from 'vitest';
import { exported, normal } from './models.js';

interface Subject {
  method: Method;
  parameters: Record<string, MxArray>;
  /** Of the largest size. */
  inputs: () => Record<string, MxArray>;
  dimensions?: Record<string, number>;
}

const float32 = 'float32' as const;

/** Six feed-forward layers of 4 × 1024. */
function wide(): Subject {
  const up = normal(3, [4096, 1024]).multiply(0.01);
  const down = normal(4, [1024, 4096]).multiply(0.01);
  return {
    parameters: { up, down },
    inputs: () => ({ x: normal(5, [512, 1024]) }),
    method: {
      dimensions: { T: { min: 1, max: 512 } },
      inputs: { x: { dtype: float32, shape: ['T', 1024] } },
      run: ({ x }) => {
        let y = x;
        for (let i = 0; i < 6; i++) y = y.add(mx.linear(mx.linear(y, up).gelu(), down));
        return { y };
      },
    },
  };
}

/** Four layers of attention over caches of 1024 positions. */
function cached(): Subject {
  const [width, heads, capacity, layers] = [512, 8, 1024, 4];
  const size = width / heads;
  const weights = Object.fromEntries(
    ['q', 'k', 'v', 'o'].map((name, i) => [name, normal(i, [width, width]).multiply(0.04)]),
  );
  const cache = { dtype: float32, shape: [1, heads, capacity, size] };
  const names = Array.from({ length: layers }, (_, i) => [
    `layers.${i}.keys`,
    `layers.${i}.values`,
  ]);
  return {
    parameters: weights,
    inputs: () => ({ x: normal(5, [1, 256, width]) }),
    dimensions: { past: 768 },
    method: {
      dimensions: { T: { min: 1, max: 256 }, past: { min: 0, max: 768 } },
      inputs: { x: { dtype: float32, shape: [1, 'T', width] } },
      states: Object.fromEntries(names.flat().map((name) => [name, cache])),
      run: ({ x }, { past }, states) => {
        const length = x.shape[1];
        const split = (y: MxArray): MxArray =>
          y.reshape([1, length, heads, size]).transpose([0, 2, 1, 3]);
        const end = [1, heads, past + length, size];
        const append = (name: string, added: MxArray): MxArray => {
          states[name] = mx.sliceUpdate(states[name], added, [0, 0, past, 0], end);
          return states[name].slice([0, 0, 0, 0], end);
        };
        let y = x;
        for (const [keys, values] of names) {
          const k = append(keys, split(mx.linear(y, weights.k)));
          const v = append(values, split(mx.linear(y, weights.v)));
          const q = split(mx.linear(y, weights.q));
          const attended = mx.scaledDotProductAttention(q, k, v, 0.125, 'causal');
          const joined = attended.transpose([0, 2, 1, 3]).reshape([1, length, width]);
          y = y.add(mx.linear(joined, weights.o));
        }
        return { y };
      },
    },
  };
}

/** Two convolutions over 1500 frames, and layers with norms: the shape of an encoder of speech. */
function convolutional(): Subject {
  const [frames, bands, width] = [1500, 80, 384];
  const first = normal(1, [width, 3, bands]).multiply(0.05);
  const second = normal(2, [width, 3, width]).multiply(0.03);
  const [weight, bias] = [mx.ones([width]), mx.zeros([width])];
  const up = normal(3, [4 * width, width]).multiply(0.05);
  const down = normal(4, [width, 4 * width]).multiply(0.02);
  return {
    parameters: { first, second, weight, bias, up, down },
    inputs: () => ({ x: normal(5, [1, 2 * frames, bands]) }),
    method: {
      inputs: { x: { dtype: float32, shape: [1, 2 * frames, bands] } },
      run: ({ x }) => {
        let y = mx.conv1d(x, first, 1, 1).gelu();
        y = mx.conv1d(y, second, 2, 1).gelu();
        for (let i = 0; i < 4; i++) {
          const normed = mx.layerNorm(y, weight, bias, 1e-5);
          y = y.add(mx.linear(mx.linear(normed, up).gelu(), down));
        }
        return { y };
      },
    },
  };
}

/** Elements alone: most results take over the memory of an operand. */
function elementwise(): Subject {
  return {
    parameters: {},
    inputs: () => ({ x: normal(5, [2048, 512]) }),
    method: {
      inputs: { x: { dtype: float32, shape: [2048, 512] } },
      run: ({ x }) => {
        const log = x.abs().log1p().floor().clip(-3, 3);
        return { y: mx.where(x.greater(0), log, x.arctan().remainder(2)) };
      },
    },
  };
}

test.each([
  ['wide layers', wide],
  ['attention over caches', cached],
  ['an encoder with convolutions', convolutional],
  ['elements alone', elementwise],
])('the estimate of memory is near what MLX counts: %s', async (_, make) => {
  const { method, parameters, inputs, dimensions } = make();
  const folder = await exported({ run: method }, parameters);
  const [{ peakBytes }] = inspectExport(folder).methods.run.traces;
  const session = loadExport(folder).session();
  const given = inputs();
  await mx.eval(...Object.values(given));
  // States are there from the first call on.
  (await session.run('run', { ...given, ...dimensions })).outputs.y.dispose();
  const before = mx.memory().active;
  // What is freed while the rest is still scheduled depends on who is faster: the most of some runs counts.
  let measured = 0;
  for (let i = 0; i < 20 && measured < 0.75 * peakBytes.largest; i++) {
    mx.resetPeakMemory();
    (await session.run('run', { ...given, ...dimensions })).outputs.y.dispose();
    measured = Math.max(measured, mx.memory().peak - before);
  }
  const message = `${(measured / 1e6).toFixed(1)} MB, not ${(peakBytes.largest / 1e6).toFixed(1)}`;
  expect(measured / peakBytes.largest, message).toBeGreaterThan(0.75);
  expect(measured / peakBytes.largest, message).toBeLessThan(1.25);
});
