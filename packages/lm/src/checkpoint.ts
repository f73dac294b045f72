/** Language models on disk: what all formats come to. */
import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { CheckpointError, systemReason, type mx, type MxArray } from '@mlx-runners/mlx-core';
import {
  fitted,
  packLayers,
  readCheckpoint,
  readJsonFile,
  type Packing,
  type Precision,
  type QuantizedFormat,
} from '@mlx-runners/nn';
import { z } from 'zod';
import type { Decoder } from './decoder.js';
import { familyOf } from './families.js';
import { readGgufCheckpoint } from './gguf-checkpoint.js';

export interface DecoderCheckpoint {
  /** The file that errors name. */
  source: string;
  /** As config.json has it. */
  config: unknown;
  /** By the decoder's names. */
  tensors: Map<string, MxArray>;
  /** How the matrix of a layer is packed, by the layer's name. */
  packingOf: (layer: string) => Packing | undefined;
  /** Of a GGUF file. */
  metadata?: ReturnType<typeof mx.loadGguf>['metadata'];
}

const format = z.object({
  group_size: z.int().positive().optional(),
  bits: z.int().positive().optional(),
  mode: z.enum(['affine', 'mxfp4', 'nvfp4', 'mxfp8']).default('affine'),
});

/** mlx-lm's: a format for all layers, and others, or none, for layers by name. */
const quantization = z.looseObject(format.shape).nullish();

/** What MLX takes where a mode leaves it open. */
const usualFormats: Record<QuantizedFormat['mode'], { bits: number; groupSize: number }> = {
  affine: { bits: 4, groupSize: 64 },
  mxfp4: { bits: 4, groupSize: 32 },
  nvfp4: { bits: 4, groupSize: 16 },
  mxfp8: { bits: 8, groupSize: 32 },
};

function quantizedFormat({ mode, bits, group_size }: z.infer<typeof format>): QuantizedFormat {
  const usual = usualFormats[mode];
  return { mode, bits: bits ?? usual.bits, groupSize: group_size ?? usual.groupSize };
}

function readFolder(folder: string): DecoderCheckpoint {
  const source = join(folder, 'config.json');
  const config = readJsonFile(source);
  const { tensors } = readCheckpoint(folder);
  const { quantization: given } = fitted(
    config,
    z.object({ quantization }),
    source,
    'the configuration of a language model',
  );
  const packingOf = (layer: string): Packing | undefined => {
    if (!given || !tensors.has(`${layer}.scales`)) return undefined;
    const own = format.safeParse(given[layer]);
    return quantizedFormat(own.success ? own.data : given);
  };
  return { source, config, tensors, packingOf };
}

/** The one GGUF file of a folder; of several parts the first. */
function ggufIn(folder: string): string | undefined {
  const names = readdirSync(folder).filter((name) => name.endsWith('.gguf'));
  const whole = names.filter((name) => !/-(?!00001)\d{5}-of-\d{5}\.gguf$/.test(name));
  if (whole.length > 1) {
    throw new CheckpointError(
      `${folder} has several models: ${whole.join(', ')}. Name one of them.`,
    );
  }
  return whole.length === 1 ? join(folder, whole[0]) : undefined;
}

/**
 * Reads a GGUF file, or a folder with one, or a folder of Hugging Face or MLX.
 *
 * @throws CheckpointError for what is none of them
 */
export function readDecoderCheckpoint(path: string): DecoderCheckpoint {
  try {
    if (!statSync(path).isDirectory()) return readGgufCheckpoint(path);
    const gguf = existsSync(join(path, 'config.json')) ? undefined : ggufIn(path);
    return gguf === undefined ? readFolder(path) : readGgufCheckpoint(gguf);
  } catch (cause) {
    if (!(cause instanceof Error && 'syscall' in cause)) throw cause;
    throw new CheckpointError(`${path} can't be read: ${systemReason(cause)}.`, { cause });
  }
}

export interface LoadDecoderOptions {
  precision?: Precision;
}

/**
 * The network of a checkpoint, with its weights. Packed matrices stay packed.
 *
 * @throws CheckpointError when they don't fit its configuration
 */
export function loadDecoder(
  { source, config, tensors, packingOf, metadata }: DecoderCheckpoint,
  { precision = 'exact' }: LoadDecoderOptions = {},
): Decoder {
  const family = familyOf(config, source);
  const decoder = family.build(config, source);
  packLayers(decoder, packingOf, precision);
  // GGUF's converters have changed the weights already.
  decoder.load(metadata ? tensors : family.sanitize(tensors));
  return decoder;
}
