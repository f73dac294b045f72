import { CheckpointError, mx, type MxArray } from '@mlx-runners/mlx-core';
import {
  BlockEmbedding,
  BlockLinear,
  Embedding,
  Linear,
  Module,
  packLayers,
  QuantizedEmbedding,
  QuantizedLinear,
  type Packing,
} from '@mlx-runners/nn';
import { expect, it } from 'vitest';

class Net extends Module {
  embed = new Embedding(12, 64);
  layers = [new Linear(64, 32), new Linear(32, 12, { bias: false })];
}

const normal = (seed: number, shape: number[]): MxArray =>
  mx.randomNormal(mx.randomKey(seed), shape);

const weights = new Map([
  ['embed.weight', normal(1, [12, 64])],
  ['layers.0.weight', normal(2, [32, 64])],
  ['layers.0.bias', normal(3, [32])],
  ['layers.1.weight', normal(4, [12, 32])],
]);
const ids = mx.array([3, 0, 11], null, 'int32');

async function expectEqual(actual: MxArray, expected: MxArray): Promise<void> {
  expect(actual.shape).toEqual(expected.shape);
  const difference = await actual.subtract(expected).abs().max().item();
  expect(difference).toBeLessThan(1e-4 * (await expected.abs().max().item()));
}

/** Loads the net twice: packed, and with what the packed matrices stand for. */
async function expectSame(
  packing: (
    name: string,
    matrix: MxArray,
  ) => { packing: Packing; parts: [string, MxArray][]; plain: MxArray },
): Promise<Net> {
  const [packed, plain] = [new Map<string, MxArray>(), new Map<string, MxArray>()];
  const packings = new Map<string, Packing>();
  for (const [name, array] of weights) {
    if (array.ndim !== 2) {
      packed.set(name, array);
      plain.set(name, array);
      continue;
    }
    const layer = name.replace('.weight', '');
    const made = packing(layer, array);
    packings.set(layer, made.packing);
    for (const [part, value] of made.parts) packed.set(`${layer}.${part}`, value);
    plain.set(name, made.plain);
  }
  const [net, reference] = [new Net(), new Net()];
  packLayers(net, (name) => packings.get(name));
  net.load(packed);
  reference.load(plain);
  const forward = ({ embed, layers }: Net): MxArray =>
    layers[1].forward(layers[0].forward(embed.forward(ids)));
  await expectEqual(forward(net), forward(reference));
  await expectEqual(
    net.embed.asLinear(normal(5, [2, 64])),
    reference.embed.asLinear(normal(5, [2, 64])),
  );
  return net;
}

it.each([
  ['affine', 4, 32],
  ['affine', 8, 32],
  ['affine', 3, 32],
  ['mxfp4', 4, 32],
  ['mxfp8', 8, 32],
  ['nvfp4', 4, 16],
] as const)('layers of MLX: %s, %i bits, groups of %i', async (mode, bits, groupSize) => {
  const net = await expectSame((_, matrix) => {
    const [weight, scales, biases] = mx.quantize(matrix, groupSize, bits, mode);
    const parts: [string, MxArray][] = [
      ['weight', weight],
      ['scales', scales],
    ];
    if (biases) parts.push(['biases', biases]);
    return {
      packing: { mode, bits, groupSize },
      parts,
      plain: mx.dequantize(weight, scales, biases, groupSize, bits, mode),
    };
  });
  expect(net.embed).toBeInstanceOf(QuantizedEmbedding);
  expect(net.layers[0]).toBeInstanceOf(QuantizedLinear);
});

it.each(['Q4_0', 'Q4_1', 'Q5_0', 'Q8_0'])('layers of GGUF: %s', async (format) => {
  const net = await expectSame((_, matrix) => {
    const blocks = mx.blockQuantize(matrix, format);
    return {
      packing: { format, shape: matrix.shape, rowBytes: blocks.shape[1] },
      parts: [['weight', blocks]],
      plain: mx.blockDequantize(blocks, format),
    };
  });
  expect(net.embed).toBeInstanceOf(BlockEmbedding);
  expect(net.layers[1]).toBeInstanceOf(BlockLinear);
});

it('layers without a packing stay what they are', () => {
  const net = new Net();
  packLayers(net, (name) =>
    name === 'embed' ? { mode: 'affine', bits: 4, groupSize: 32 } : undefined,
  );
  expect(net.embed).toBeInstanceOf(QuantizedEmbedding);
  expect(net.layers[0]).toBeInstanceOf(Linear);
  expect([...net.parameters().keys()]).toEqual([
    'embed.weight',
    'embed.scales',
    'embed.biases',
    'layers.0.weight',
    'layers.0.bias',
    'layers.1.weight',
  ]);
});

it('refuses packings that do not fit, and packed numbers of another dtype', () => {
  const refuses = (packing: Packing, message: RegExp): void => {
    expect(() => packLayers(new Net(), () => packing)).toThrow(CheckpointError);
    expect(() => packLayers(new Net(), () => packing)).toThrow(message);
  };
  refuses({ mode: 'affine', bits: 4, groupSize: 128 }, /embed has rows of 64, .* groups of 128/);
  refuses(
    { format: 'Q8_0', shape: [12, 32], rowBytes: 34 },
    /embed is \[12, 32\] instead of \[12, 64\]/,
  );
  const net = new Net();
  packLayers(net, () => ({ mode: 'affine', bits: 4, groupSize: 32 }));
  const tensors = new Map(
    [...net.parameters()].map(([name, { shape }]) => [name, mx.zeros(shape)]),
  );
  expect(() => net.load(tensors)).toThrow(/3 of another kind: embed\.weight \(float32\)/);
});
