/** Exports with quantised weights: what their weights stand for. */
import { join } from 'node:path';
import { mx, type Dtype, type MxArray } from '@mlx-runners/mlx-core';
import type { CheckOptions, Finding } from './check-export.js';
import type { Manifest } from './format.js';
import type { Packing } from './quantisation.js';
import { weightUses, type WeightUses } from './weight-uses.js';

/** Of scales and biases, which have the dtype of the weights. */
const rounding: Partial<Record<Dtype, number>> = { float16: 2 ** -10, bfloat16: 2 ** -7 };

/**
 * The most that rounding may change, as a share of the range of a group. Affine: one step, since MLX moves the steps
 * so that the largest value is one of them, and those at the other end may lie beyond the last. Floats: half of the
 * last step, whose place depends on how the scale is rounded, or what lies beyond it.
 */
function mostOff({ mode, bits }: Packing, dtype: Dtype): number {
  switch (mode) {
    case 'affine':
      return 1.001 / (2 ** bits - 1) + (rounding[dtype] ?? 0);
    case 'nvfp4':
      return 1.001 / 11.25;
    case 'mxfp4':
      return 1.001 / 10;
    case 'mxfp8':
      return 1.001 / 34;
  }
}

/** The range of a group below which scales of nvfp4, 8-bit floats, have fewer digits. */
const smallestRange = { nvfp4: 2 * 6 * 2 ** -6, mxfp4: 1e-30, mxfp8: 1e-30, affine: 1e-30 };

/**
 * Gives the model the weights that its quantised ones stand for. Finds how far they are from what they
 * were, relative to the range of their group.
 */
export async function checkRounding(
  folder: string,
  manifest: Manifest,
  { model, methods }: Pick<CheckOptions, 'model' | 'methods'>,
): Promise<Finding[]> {
  if (!manifest.quantization || !model) return [];
  const kept = storedNames(folder, manifest);
  const uses = weightUses(methods, model.parameters);
  const rounded = new Map<string, MxArray>();
  const largest = new Map<Packing, { count: number; error: number }>();
  for (const [name, weight] of model.parameters) {
    const packing = packingOfWeight(manifest.quantization, uses.get(name));
    if (kept.has(name) || !packing || !isQuantisable(weight, packing)) continue;
    const { values, error } = mx.tidy(() => roundedWeight(weight, packing));
    await mx.eval(values, error);
    rounded.set(name, values);
    const before = largest.get(packing) ?? { count: 0, error: 0 };
    const found = Number((await error.data())[0]);
    largest.set(packing, { count: before.count + 1, error: Math.max(before.error, found) });
    error.dispose();
  }
  model.load(rounded);
  return [...largest].map(([packing, { count, error }]) => {
    const most = mostOff(packing, manifest.dtype);
    const found = `${count}, off by ${percent(error)} of their group's range, at most ${percent(most)}`;
    return { what: whatOf(packing, manifest.quantization!), ok: error <= most, found };
  });
}

type Quantization = NonNullable<Manifest['quantization']>;

/** As the passes choose it. */
function packingOfWeight(
  { linear, encoder, embedding }: Quantization,
  uses: WeightUses | undefined,
): Packing | undefined {
  if (!uses) return undefined;
  if (uses.isTable) return embedding;
  const inEncoder = encoder && uses.methods.every((method) => encoder.methods.includes(method));
  return inEncoder ? encoder : linear;
}

function whatOf(packing: Packing, { encoder, embedding }: Quantization): string {
  const { mode, bits } = packing;
  const which =
    packing === embedding ? ' of embeddings' : packing === encoder ? ' of the encoder' : '';
  return `weights${which} of ${mode === 'affine' ? `${bits} bits` : mode}`;
}

function percent(share: number): string {
  return `${(100 * share).toFixed(2)} %`;
}

function storedNames(folder: string, { weights }: Manifest): Set<string> {
  return mx.tidy(() => {
    const files = weights.map((path) => mx.loadSafetensors(join(folder, path)).tensors);
    return new Set(files.flatMap((file) => [...file.keys()]));
  });
}

function isQuantisable({ dtype, shape }: MxArray, { groupSize }: Packing): boolean {
  return dtype.includes('float') && shape.length === 2 && shape[1] % groupSize === 0;
}

/** The weight as its codes have it, and the largest error. */
function roundedWeight(
  weight: MxArray,
  { mode, bits, groupSize }: Packing,
): { values: MxArray; error: MxArray } {
  const [codes, scales, biases = null] = mx.quantize(weight, groupSize, bits, mode);
  const packing = [groupSize, bits, mode, null] as const;
  const values = mx.dequantize(codes, scales, biases, ...packing, weight.dtype);
  const [rows, columns] = weight.shape;
  const grouped = [rows, columns / groupSize, groupSize];
  const exact = weight.astype('float32').reshape(grouped);
  const off = values.astype('float32').reshape(grouped).subtract(exact).abs();
  // Affine groups have their own ends, the others those of the largest value and its negative.
  const ranges = biases
    ? scales
        .astype('float32')
        .abs()
        .multiply(2 ** bits - 1)
    : exact.abs().max(-1).multiply(2);
  // A group of equal values has no range, and no errors.
  const divisors = ranges.maximum(smallestRange[mode]).reshape([rows, -1, 1]);
  return { values, error: off.divide(divisors).max() };
}
