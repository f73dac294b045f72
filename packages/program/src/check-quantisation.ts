/** Exports with quantised weights: what their weights stand for. */
import { join } from 'node:path';
import { mx, type Dtype, type MxArray } from '@mlx-runners/mlx-core';
import { z } from 'zod';
import type { Finding, ReloadableModel } from './check-export.js';
import type { Manifest } from './format.js';
import type { LinearQuantisation } from './passes/quantise-linears.js';

const linearSchema = z.object({
  linear: z.object({
    bits: z.union([z.literal(4), z.literal(8)]),
    groupSize: z.union([z.literal(32), z.literal(64), z.literal(128)]),
  }),
});

/** Of scales and biases, which have the dtype of the weights. */
const rounding: Partial<Record<Dtype, number>> = { float16: 2 ** -10, bfloat16: 2 ** -7 };

/**
 * The most that rounding may change, as a share of the range of a group: one step, since MLX moves the steps so
 * that the largest value is one of them, and those at the other end may lie beyond the last.
 */
function mostOff(bits: number, dtype: Dtype): number {
  return 1.001 / (2 ** bits - 1) + (rounding[dtype] ?? 0);
}

/**
 * Gives the model the weights that its quantised ones stand for. Finds how far they are from what they
 * were, relative to the range of their group.
 */
export async function checkRounding(
  folder: string,
  manifest: Manifest,
  model: ReloadableModel | undefined,
): Promise<Finding[]> {
  const { success, data } = linearSchema.safeParse(manifest.quantization);
  if (!success || !model) return [];
  const { linear } = data;
  const kept = storedNames(folder, manifest);
  const rounded = new Map<string, MxArray>();
  let largest = 0;
  for (const [name, weight] of model.parameters) {
    if (kept.has(name) || !isQuantisable(weight, linear)) continue;
    const { values, error } = mx.tidy(() => roundedWeight(weight, linear));
    await mx.eval(values, error);
    rounded.set(name, values);
    largest = Math.max(largest, Number((await error.data())[0]));
    error.dispose();
  }
  model.load(rounded);
  const most = mostOff(linear.bits, manifest.dtype);
  const percent = (share: number): string => `${(100 * share).toFixed(2)} %`;
  const found = `${rounded.size}, off by ${percent(largest)} of their group's range, at most ${percent(most)}`;
  return [{ what: `weights of ${linear.bits} bits`, ok: largest <= most, found }];
}

function storedNames(folder: string, { weights }: Manifest): Set<string> {
  return mx.tidy(() => {
    const files = weights.map((path) => mx.loadSafetensors(join(folder, path)).tensors);
    return new Set(files.flatMap((file) => [...file.keys()]));
  });
}

function isQuantisable({ dtype, shape }: MxArray, { groupSize }: LinearQuantisation): boolean {
  return dtype.includes('float') && shape.length === 2 && shape[1] % groupSize === 0;
}

/** The weight as its codes have it, and the largest error. */
function roundedWeight(
  weight: MxArray,
  { bits, groupSize }: LinearQuantisation,
): { values: MxArray; error: MxArray } {
  const [codes, scales, biases] = mx.quantize(weight, groupSize, bits);
  const values = mx.dequantize(codes, scales, biases, groupSize, bits);
  const [rows, columns] = weight.shape;
  const grouped = [rows, columns / groupSize, groupSize];
  const off = values.astype('float32').subtract(weight.astype('float32')).abs().reshape(grouped);
  const ranges = scales
    .astype('float32')
    .abs()
    .multiply(2 ** bits - 1)
    .reshape([rows, -1, 1]);
  // A group of equal values has no range, and no errors.
  return { values, error: off.divide(ranges.maximum(1e-30)).max() };
}
