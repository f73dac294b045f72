/** Small models of several kinds, each with one method, to be damaged by the fuzzer. */
import { mx, type MxArray } from '@mlx-runners/mlx-core';
import type { Method } from '@mlx-runners/program';
import { cachedAttention, normal } from './models.js';

export interface FuzzModel {
  method: Method;
  parameters: Record<string, MxArray>;
}

export function fuzzModels(): Record<string, FuzzModel> {
  return {
    attention: cachedAttention(),
    convolutions: convolutions(),
    decoder: decoder(),
    quantised: quantised(),
  };
}

/** Normals of these shapes, by name. */
function weights(shapes: Readonly<Record<string, readonly number[]>>): Record<string, MxArray> {
  return Object.fromEntries(
    Object.entries(shapes).map(([name, shape], i) => [name, normal(i, shape)]),
  );
}

/** Frames [1, T, 4] through two convolutions, the second of half the frames, and a mean. */
function convolutions(): FuzzModel {
  const parameters = weights({ first: [6, 3, 4], second: [8, 3, 6], norm: [8], bias: [8] });
  return {
    parameters,
    method: {
      dimensions: { T: { min: 2, max: 24, multipleOf: 2 } },
      inputs: { x: { dtype: 'float32', shape: [1, 'T', 4] } },
      run: ({ x }, { T }) => {
        const padded = mx.pad(x, [0, 0, 1, 1, 0, 0], 0);
        const wide = mx.conv1d(padded, parameters.first).gelu();
        const half = mx.conv1d(wide, parameters.second, 2, 1).gelu();
        const placed = half.add(mx.arange(T / 2).reshape([1, -1, 1]));
        const normed = mx.layerNorm(placed, parameters.norm, parameters.bias);
        const [even, odd] = normed.split(2, -1);
        return {
          y: normed,
          mean: mx.concatenate([even.mean(1), odd.max([1])], -1),
          half: half.sum(),
        };
      },
    },
  };
}

const [width, heads, capacity, vocabulary] = [8, 2, 12, 10];

/** A step of a decoder: embeddings, a cache, attention to it and to given states, and scores. */
function decoder(): FuzzModel {
  const square = [width, width];
  const parameters = weights({
    ...{ tokens: [vocabulary, width], positions: [capacity, width], scale: [width] },
    ...{ q: square, k: square, v: square, cross: square, up: [16, width], down: [width, 16] },
  });
  const cache = { dtype: 'float32', shape: [1, heads, capacity, width / heads] } as const;
  const split = (x: MxArray): MxArray =>
    x.reshape([1, -1, heads, width / heads]).transpose([0, 2, 1, 3]);
  const merged = (x: MxArray): MxArray => x.transpose([0, 2, 1, 3]).reshape([1, -1, width]);
  return {
    parameters,
    method: {
      dimensions: { T: { min: 1, max: 6 }, past: { min: 0, max: capacity - 1 } },
      limits: [{ size: ['+', 'past', 'T'], max: capacity }],
      inputs: {
        ids: { dtype: 'int32', shape: [1, 'T'] },
        encoded: { dtype: 'float32', shape: [1, 5, width] },
      },
      states: { keys: cache, values: cache, seen: { dtype: 'int32', shape: [2] } },
      run: ({ ids, encoded }, { past }, states) => {
        const end = past + ids.shape[1];
        const append = (name: string, added: MxArray): MxArray => {
          const stop = [1, heads, end, width / heads];
          states[name] = mx.sliceUpdate(states[name], added, [0, 0, past, 0], stop);
          return states[name].slice([0, 0, 0, 0], stop);
        };
        let x = parameters.tokens
          .take(ids, 0)
          .add(parameters.positions.slice([past, 0], [end, width]));
        const normed = mx.rmsNorm(x, parameters.scale);
        const [keys, values] = (['keys', 'values'] as const).map((name) =>
          append(name, split(mx.linear(normed, parameters[name[0]]))),
        );
        const q = split(mx.linear(normed, parameters.q));
        x = x.add(merged(mx.scaledDotProductAttention(q, keys, values, 0.5, 'causal')));
        const scores = mx.linear(x, parameters.cross).matmul(encoded.swapaxes(-1, -2)).softmax(-1);
        x = x.add(scores.matmul(encoded));
        x = x.add(mx.linear(mx.linear(x, parameters.up).sigmoid(), parameters.down));
        const logits = mx.linear(x, parameters.tokens);
        const next = logits.argmax(-1);
        states.seen = states.seen.add(ids.max().astype('int32'));
        return { logits, next, likely: parameters.tokens.take(next, 0).sum(-1), seen: states.seen };
      },
    },
  };
}

/** Rows of a quantised table through quantised layers. */
function quantised(): FuzzModel {
  const parts = (name: string, shape: readonly number[], seed: number): Record<string, MxArray> => {
    const [codes, scales, biases] = mx.quantize(normal(seed, shape), 32, 4);
    return { [`${name}.codes`]: codes, [`${name}.scales`]: scales, [`${name}.biases`]: biases };
  };
  const parameters = {
    ...parts('table', [vocabulary, 64], 1),
    ...parts('layer', [64, 64], 2),
    bias: normal(3, [64]),
  };
  mx.evalSync(...Object.values(parameters));
  const of = (name: string): [MxArray, MxArray, MxArray] => {
    const all = parameters as Record<string, MxArray>;
    return [all[`${name}.codes`], all[`${name}.scales`], all[`${name}.biases`]];
  };
  return {
    parameters,
    method: {
      dimensions: { T: { min: 1, max: 8 } },
      inputs: { ids: { dtype: 'int32', shape: ['T'] } },
      run: ({ ids }) => {
        let x = mx.quantizedTake(...of('table'), ids, 32, 4);
        x = mx.quantizedLinear(x, ...of('layer'), parameters.bias, 32, 4).tanh();
        const y = mx.quantizedMatmul(x.expandDims(0), ...of('table'), true, 32, 4);
        return { y: y.squeeze(0), order: y.argsort(-1).astype('float16') };
      },
    },
  };
}
