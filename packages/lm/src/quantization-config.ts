/** mlx-lm's `quantization` in config.json: a format for all packed layers, and others for layers by name. */
import { UsageError } from '@mlx-runners/mlx-core';
import type { QuantizedFormat } from '@mlx-runners/nn';
import { z } from 'zod';

const format = z.object({
  group_size: z.int().positive().optional(),
  bits: z.int().positive().optional(),
  mode: z.enum(['affine', 'mxfp4', 'nvfp4', 'mxfp8']).default('affine'),
});

export const quantizationSchema = z.looseObject(format.shape);

/** What MLX takes where a mode leaves it open, and what it allows. */
const modes: Readonly<Record<QuantizedFormat['mode'], { bits: number[]; groupSizes: number[] }>> = {
  affine: { bits: [4, 2, 3, 5, 6, 8], groupSizes: [64, 32, 128] },
  mxfp4: { bits: [4], groupSizes: [32] },
  nvfp4: { bits: [4], groupSizes: [16] },
  mxfp8: { bits: [8], groupSizes: [32] },
};

/**
 * The format of a layer: its own, or that of all.
 *
 * @param quantization as `quantizationSchema` has it
 */
export function formatOf(
  quantization: z.infer<typeof quantizationSchema>,
  layer: string,
): QuantizedFormat {
  const own = format.safeParse(quantization[layer]);
  const { mode, bits, group_size: groupSize } = own.success ? own.data : quantization;
  return filled({ mode, bits, groupSize });
}

interface GivenFormat {
  mode?: QuantizedFormat['mode'] | undefined;
  bits?: number | undefined;
  groupSize?: number | undefined;
}

function filled({ mode = 'affine', bits, groupSize }: GivenFormat): QuantizedFormat {
  const usual = modes[mode];
  return { mode, bits: bits ?? usual.bits[0], groupSize: groupSize ?? usual.groupSizes[0] };
}

/**
 * The format that a caller means.
 *
 * @throws UsageError for one that MLX does not have
 */
export function usableFormat(given: GivenFormat): QuantizedFormat {
  const { mode = 'affine' } = given;
  if (!Object.hasOwn(modes, mode)) {
    throw new UsageError(`Matrices are packed by ${Object.keys(modes).join(', ')}, not ${mode}.`);
  }
  const { bits, groupSizes } = modes[mode];
  const format = filled(given);
  if (!bits.includes(format.bits) || !groupSizes.includes(format.groupSize)) {
    const listed = (sizes: number[]): string => sizes.toSorted((a, b) => a - b).join(', ');
    throw new UsageError(
      `${mode} has ${listed(bits)} bits in groups of ${listed(groupSizes)}, not ${format.bits} in groups of ${format.groupSize}.`,
    );
  }
  return format;
}

function fieldsOf({ groupSize, bits, mode }: QuantizedFormat): Record<string, unknown> {
  return { group_size: groupSize, bits, mode };
}

/**
 * The fields of config.json for packed layers; none without any. The format that most have stands for all.
 *
 * @param formats by the layers' names
 */
export function quantizationFields(
  formats: ReadonlyMap<string, QuantizedFormat>,
): Record<string, unknown> {
  const keyOf = (each: QuantizedFormat): string => JSON.stringify(fieldsOf(each));
  const counts = new Map<string, number>();
  for (const each of formats.values()) counts.set(keyOf(each), (counts.get(keyOf(each)) ?? 0) + 1);
  const [most] = [...counts].toSorted(([, a], [, b]) => b - a);
  if (!most) return {};
  const others = [...formats].filter(([, each]) => keyOf(each) !== most[0]);
  const quantization = {
    ...(JSON.parse(most[0]) as object),
    ...Object.fromEntries(others.map(([layer, each]) => [layer, fieldsOf(each)])),
  };
  // mlx-lm writes it twice, since transformers knows the longer name.
  return { quantization, quantization_config: quantization };
}
