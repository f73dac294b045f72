/** What weights can be quantised to. */
import { UsageError } from '@mlx-runners/mlx-core/errors';
import { z } from 'zod';

/**
 * `4w` and `8w` are MLX's affine modes of 4 and 8 bits, whose groups have a scale and a bias; the others have a scale
 * for each group: `nvfp4` and `mxfp4` of 4-bit floats, `mxfp8` of 8-bit ones.
 */
export const quantisationTypes = ['4w', '8w', 'nvfp4', 'mxfp4', 'mxfp8'] as const;
export type QuantisationType = (typeof quantisationTypes)[number];

export interface WeightQuantisation {
  type: QuantisationType;
  /** Weights along the inputs that share a scale: 32, 64 or 128 of `4w` and `8w`; of others it is fixed. */
  groupSize?: number;
}

/** The same as MLX's ops take it. */
export interface Packing {
  mode: 'affine' | 'nvfp4' | 'mxfp4' | 'mxfp8';
  bits: number;
  groupSize: number;
}

type Kind = Pick<Packing, 'mode' | 'bits'> & {
  /** The first unless given. */
  groupSizes: readonly number[];
};

const kinds: Record<QuantisationType, Kind> = {
  '4w': { mode: 'affine', bits: 4, groupSizes: [32, 64, 128] },
  '8w': { mode: 'affine', bits: 8, groupSizes: [32, 64, 128] },
  nvfp4: { mode: 'nvfp4', bits: 4, groupSizes: [16] },
  mxfp4: { mode: 'mxfp4', bits: 4, groupSizes: [32] },
  mxfp8: { mode: 'mxfp8', bits: 8, groupSizes: [32] },
};

/** @throws UsageError for groups that the type doesn't have */
export function packingOf({ type, groupSize }: WeightQuantisation): Packing {
  const { mode, bits, groupSizes } = kinds[type];
  const wrong = wrongGroupSize({ type, groupSize });
  if (wrong !== undefined) throw new UsageError(`The group size of ${type} ${wrong}.`);
  return { mode, bits, groupSize: groupSize ?? groupSizes[0] };
}

/** What a group size has to be and isn't. */
function wrongGroupSize({ type, groupSize }: WeightQuantisation): string | undefined {
  const { groupSizes } = kinds[type];
  if (groupSize === undefined || groupSizes.includes(groupSize)) return undefined;
  const last = groupSizes.at(-1)!;
  const listed = groupSizes.slice(0, -1).join(', ');
  return `must be ${listed === '' ? last : `${listed} or ${last}`}`;
}

/** Of a description's fields. */
export const weightQuantisation = z
  .strictObject(
    {
      type: z.enum(quantisationTypes, `must be one of ${quantisationTypes.join(', ')}`),
      groupSize: z.number('must be a number').optional(),
    },
    'must be an object of type, and groupSize where there is a choice',
  )
  .superRefine((given, context) => {
    const message = wrongGroupSize(given);
    if (message === undefined) return;
    context.addIssue({ code: 'custom', message, path: ['groupSize'], input: given.groupSize });
  });

/** Of a manifest. */
export const packingFile = z.strictObject({
  mode: z.enum(['affine', 'nvfp4', 'mxfp4', 'mxfp8']),
  bits: z.int().min(2).max(8),
  groupSize: z.int().min(16).max(128),
});
