/** Language models on disk: what all formats come to. */
import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import {
  CheckpointError,
  printable,
  systemReason,
  type mx,
  type MxArray,
} from '@mlx-runners/mlx-core';
import {
  fitted,
  packLayers,
  readCheckpoint,
  readJsonFile,
  type Packing,
  type Precision,
} from '@mlx-runners/nn';
import { z } from 'zod';
import { isTied, sizeFields } from './config.js';
import type { Decoder } from './decoder.js';
import { familyOf } from './families.js';
import { readGgufCheckpoint } from './gguf-checkpoint.js';
import { readLlama2cCheckpoint } from './llama2c-checkpoint.js';
import { formatOf, quantizationSchema } from './quantization-config.js';

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

const folderSchema = z.object({
  quantization: quantizationSchema.nullish(),
  model_type: sizeFields.model_type,
  tie_word_embeddings: sizeFields.tie_word_embeddings,
});

/** Some files have the output matrix also where it is the table of embeddings, and old ones what rotations follow from. */
function dropUnused(tensors: Map<string, MxArray>, tied: boolean): void {
  for (const [name, tensor] of tensors) {
    const isUnused = (tied && name.startsWith('lm_head.')) || name.endsWith('.rotary_emb.inv_freq');
    if (!isUnused) continue;
    tensors.delete(name);
    tensor.dispose();
  }
}

function readFolder(folder: string): DecoderCheckpoint {
  const source = join(folder, 'config.json');
  const config = readJsonFile(source);
  const {
    quantization: given,
    model_type,
    tie_word_embeddings,
  } = fitted(config, folderSchema, source, 'the configuration of a language model');
  const { tensors } = readCheckpoint(folder);
  dropUnused(tensors, isTied({ model_type, tie_word_embeddings }));
  const packingOf = (layer: string): Packing | undefined => {
    if (!given || !tensors.has(`${layer}.scales`)) return undefined;
    return formatOf(given, layer);
  };
  return { source, config, tensors, packingOf };
}

/** Models that are one file, by the ends of their names. */
const fileReaders: readonly (readonly [RegExp, (path: string) => DecoderCheckpoint])[] = [
  [/\.gguf$/i, readGgufCheckpoint],
  [/\.(?:pt|pth)$/i, readLlama2cCheckpoint],
];

/** The one such file of a folder; of a GGUF file in several parts the first that is there. */
function fileIn(folder: string): string | undefined {
  const models = new Map<string, string>();
  for (const name of readdirSync(folder).sort()) {
    if (!fileReaders.some(([end]) => end.test(name))) continue;
    const model = name.replace(/-\d{5}(-of-\d{5}\.gguf)$/i, '$1');
    if (!models.has(model)) models.set(model, name);
  }
  const names = [...models.values()];
  if (names.length > 1) {
    throw new CheckpointError(
      `${folder} has several models: ${printable(names.join(', '))}. Name one of them.`,
    );
  }
  return names.length === 1 ? join(folder, names[0]) : undefined;
}

function readFile(path: string): DecoderCheckpoint {
  const reader = fileReaders.find(([end]) => end.test(path));
  if (reader) return reader[1](path);
  throw new CheckpointError(`${path} is no file of a model: .gguf, .pt and .pth are read.`);
}

/**
 * Reads a GGUF file, a PyTorch file of llama2.c, or a folder with one of them, or a folder of Hugging Face or MLX.
 *
 * @throws CheckpointError for what is none of them
 */
export function readDecoderCheckpoint(path: string): DecoderCheckpoint {
  try {
    if (!statSync(path).isDirectory()) return readFile(path);
    const file = existsSync(join(path, 'config.json')) ? undefined : fileIn(path);
    return file === undefined ? readFolder(path) : readFile(file);
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
