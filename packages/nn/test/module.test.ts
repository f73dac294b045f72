import { describe, expect, it } from 'vitest';
import { CheckpointError, mx, type MxArray } from '@mlx-runners/mlx-core';
import { Conv1d, Embedding, LayerNorm, Linear, Module } from '@mlx-runners/nn';

class Block extends Module {
  norm = new LayerNorm(3);
  proj = new Linear(3, 2, { bias: false });
}

class Net extends Module {
  embed = new Embedding(5, 3);
  layers = [new Block(), new Block()];
  readonly settings = { width: 3 };
}

function weights(): Map<string, MxArray> {
  return new Map(
    [...new Net().parameters()].map(([name, { shape }], i) => [name, mx.full(shape, i + 1)]),
  );
}

describe('Module', () => {
  it('names parameters by the path of fields and indices', () => {
    expect([...new Net().parameters().keys()]).toEqual([
      'embed.weight',
      'layers.0.norm.weight',
      'layers.0.norm.bias',
      'layers.0.proj.weight',
      'layers.1.norm.weight',
      'layers.1.norm.bias',
      'layers.1.proj.weight',
    ]);
  });

  it('takes all parameters from a checkpoint', async () => {
    const net = new Net();
    net.load(weights());
    expect(await net.layers[1].proj.weight.data()).toEqual(new Float32Array(6).fill(7));
  });

  it('converts to the dtype asked for and frees what it converted', () => {
    const net = new Net();
    const tensors = weights();
    net.load(tensors, { dtype: 'float16' });
    expect(net.embed.weight.dtype).toBe('float16');
    expect([...tensors.values()].every(({ disposed }) => disposed)).toBe(true);
  });

  it('lists everything that does not fit in one error and loads nothing', () => {
    const net = new Net();
    const tensors = weights();
    tensors.delete('embed.weight');
    tensors.set('layers.0.extra', mx.zeros([1]));
    tensors.set('layers.1.norm.bias', mx.zeros([4]));
    const attempt = (): void => net.load(tensors);
    expect(attempt).toThrow(CheckpointError);
    expect(attempt).toThrow(
      'Tensors 1 missing: embed.weight; 1 surplus: layers.0.extra; ' +
        '1 of another shape: layers.1.norm.bias [4] instead of [3].',
    );
    expect(net.layers[0].norm.weight.max().itemSync()).toBe(0);
  });

  it('refuses integers, and names of any length in a short message', () => {
    const net = new Net();
    const tensors = weights();
    tensors.set('embed.weight', tensors.get('embed.weight')!.astype('int32'));
    expect(() => net.load(tensors)).toThrow(/Tensors 1 of another kind: embed\.weight \(int32\)\./);
    for (let i = 0; i < 9; i++) tensors.set(`${i}\n`.repeat(9999), mx.zeros([1]));
    expect(() => net.load(tensors)).toThrow(/^[^\n]{100,500}$/);
  });

  it('frees its parameters when disposed', () => {
    const before = mx.memory().arrays;
    const net = new Net();
    expect(mx.memory().arrays).toBe(before + 7);
    net.dispose();
    expect(mx.memory().arrays).toBe(before);
  });
});

function seeded(shape: number[], seed: number): MxArray {
  return mx.randomNormal(mx.randomKey(seed), shape);
}

function fill<T extends Module>(module: T, seed: number): T {
  const tensors = [...module.parameters()].map(
    ([name, { shape }], i) => [name, seeded([...shape], seed + i)] as const,
  );
  module.load(new Map(tensors));
  return module;
}

describe('layers', () => {
  it('Linear multiplies by the transposed weight and adds the bias', () => {
    const linear = fill(new Linear(4, 3), 1);
    const x = seeded([2, 5, 4], 9);
    const expected = x.matmul(linear.weight.transpose()).add(linear.bias!);
    expect(mx.allclose(linear.forward(x), expected, 1e-5, 1e-5).itemSync()).toBe(1);
  });

  it('Embedding looks up rows and projects back onto them', () => {
    const embedding = fill(new Embedding(6, 4), 2);
    const ids = mx.array(Int32Array.of(5, 0, 5));
    const rows = embedding.forward(ids);
    expect(rows.shape).toEqual([3, 4]);
    expect(rows.dataSync().slice(0, 4)).toEqual(embedding.weight.dataSync().slice(20));
    const logits = embedding.asLinear(rows);
    expect(logits.shape).toEqual([3, 6]);
    const norm = rows.square().sum(-1).dataSync();
    expect(logits.dataSync()[5]).toBeCloseTo(Number(norm[0]), 4);
  });

  it('LayerNorm gives mean 0 and variance 1 before weight and bias', () => {
    const norm = fill(new LayerNorm(64), 3);
    const plain = norm
      .forward(seeded([3, 64], 4))
      .subtract(norm.bias)
      .divide(norm.weight);
    expect(plain.mean(-1).abs().max().itemSync()).toBeLessThan(1e-5);
    expect(plain.variance(-1).subtract(1).abs().max().itemSync()).toBeLessThan(1e-3);
  });

  it('Conv1d has the length and values of a sum over the kernel', () => {
    const conv = fill(new Conv1d(2, 3, 3, { stride: 2, padding: 1 }), 5);
    const x = seeded([1, 7, 2], 6);
    const y = conv.forward(x);
    expect(y.shape).toEqual([1, 4, 3]);
    const [input, weight, bias] = [x, conv.weight, conv.bias].map((a) => a.dataSync());
    let sum = Number(bias[1]);
    for (let k = 0; k < 3; k++) {
      for (let c = 0; c < 2; c++) {
        const t = 2 * 2 - 1 + k;
        sum += Number(input[t * 2 + c]) * Number(weight[(1 * 3 + k) * 2 + c]);
      }
    }
    expect(Number(y.dataSync()[2 * 3 + 1])).toBeCloseTo(sum, 4);
  });
});
