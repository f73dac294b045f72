/** Checkpoints of any kind as folders that mlx-lm loads, as its own `convert` writes them. */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { mx, UsageError, type Dtype, type MxArray } from '@mlx-runners/mlx-core';
import { throwIfAborted } from '@mlx-runners/mlx-core/errors';
import { checkReplaceable, replaceFolder } from '@mlx-runners/mlx-core/replace-folder';
import type { QuantizedFormat } from '@mlx-runners/nn';
import { readDecoderCheckpoint, type DecoderCheckpoint } from './checkpoint.js';
import { writeJson, writeTexts } from './converted-texts.js';
import { convertedWeights, type ConvertedWeights } from './converted-weights.js';
import { huggingFaceForm } from './hugging-face-form.js';
import { quantizationFields, usableFormat } from './quantization-config.js';

export interface ConvertOptions {
  /** Packs matrices. What is left out is as MLX has it for the mode: affine, 4 bits in groups of 64. */
  quantize?: Partial<QuantizedFormat>;
  /**
   * Of plain numbers, scales and biases. Unless given: what config.json says, or the checkpoint has; of GGUF's blocks
   * float16, of Gemma's, which float16 is too small for, bfloat16.
   */
  dtype?: 'float32' | 'float16' | 'bfloat16';
  /** Plain numbers also where the checkpoint packs matrices as MLX does. */
  dequantize?: boolean;
  /** Keeps the codes of GGUF's blocks where MLX's affine format holds them exactly, with float32 scales. */
  repack?: 'affine';
  /** Where a further file of weights begins. Default 5 GB. */
  maxShardBytes?: number;
  signal?: AbortSignal;
}

export interface Conversion {
  /** What was written, by the paths in the folder. */
  files: string[];
  tensors: number;
  bytes: number;
  /** How many layers are packed. */
  packedLayers: number;
}

/**
 * Writes a checkpoint (of Hugging Face, MLX, GGUF or llama2.c) to a folder as mlx-lm has them: config.json, weights
 * as safetensors, the tokenizer and its chat template. The folder appears whole or not at all.
 *
 * @param source what `readDecoderCheckpoint` reads
 * @param folder must not exist, or be empty
 * @throws UsageError for options that exclude one another, CheckpointError for what can't be read, FileError where
 *   the folder can't be written, AbortedError
 */
export async function convertCheckpoint(
  source: string,
  folder: string,
  options: ConvertOptions = {},
): Promise<Conversion> {
  checkOptions(options);
  checkReplaceable(folder, onlyEmpty);
  const checkpoint = huggingFaceForm(readDecoderCheckpoint(source));
  const config = checkpoint.config as Record<string, unknown>;
  const dtype = options.dtype ?? dtypeOf(checkpoint, options);
  const quantize = options.quantize && usableFormat(options.quantize);
  const repack = options.repack !== undefined;
  const { dequantize = false } = options;
  return await replaceFolder(folder, onlyEmpty, async (draft) => {
    const weights = convertedWeights(checkpoint, { dtype, quantize, dequantize, repack });
    const { bytes, tensors } = await writeWeights(draft, weights, options);
    const tokens = await writeTexts(draft, source, checkpoint);
    await writeJson(draft, 'config.json', {
      ...config,
      quantization: undefined,
      quantization_config: undefined,
      ...tokens,
      ...(dtype === undefined ? {} : { torch_dtype: dtype }),
      ...quantizationFields(weights.formats),
    });
    return { files: readdirSync(draft), tensors, bytes, packedLayers: weights.formats.size };
  });
}

function checkOptions({ quantize, dequantize, repack }: ConvertOptions): void {
  const given = [
    ...(quantize ? ['quantize'] : []),
    ...(dequantize ? ['dequantize'] : []),
    ...(repack ? ['repack'] : []),
  ];
  if (given.length > 1) {
    throw new UsageError(`A checkpoint is converted by one of ${given.join(' and ')}, not both.`);
  }
}

/** The source's weights may be in there: nothing is ever replaced. */
function onlyEmpty(_folder: string, files: Iterable<string>): string | undefined {
  return [...files].length > 0 ? 'it is not empty' : undefined;
}

const DTYPES = ['float32', 'float16', 'bfloat16'] as const;

function dtypeOf(
  { config, metadata }: DecoderCheckpoint,
  { repack }: ConvertOptions,
): Dtype | undefined {
  const { torch_dtype, dtype, model_type } = config as Record<string, unknown>;
  const named = DTYPES.find((name) => name === (torch_dtype ?? dtype));
  if (named !== undefined) return named;
  if (!metadata || repack !== undefined) return undefined;
  return String(model_type).startsWith('gemma') ? 'bfloat16' : 'float16';
}

const LARGEST_SHARD = 5 * 2 ** 30;

/** model.safetensors, or parts of it with an index; freed as they are written. */
async function writeWeights(
  folder: string,
  { tensors }: ConvertedWeights,
  { maxShardBytes = LARGEST_SHARD, signal }: ConvertOptions,
): Promise<{ bytes: number; tensors: number }> {
  const shards: Map<string, MxArray>[] = [];
  let [bytes, filled] = [0, Infinity];
  for (const [name, tensor] of tensors) {
    if (filled + tensor.nbytes > maxShardBytes) {
      shards.push(new Map());
      filled = 0;
    }
    shards.at(-1)!.set(name, tensor);
    filled += tensor.nbytes;
    bytes += tensor.nbytes;
  }
  const digits = (value: number): string => String(value).padStart(5, '0');
  const weightMap: Record<string, string> = {};
  for (const [i, shard] of shards.entries()) {
    throwIfAborted(signal);
    const name =
      shards.length === 1
        ? 'model.safetensors'
        : `model-${digits(i + 1)}-of-${digits(shards.length)}.safetensors`;
    mx.saveSafetensors(join(folder, name), shard, { format: 'mlx' });
    for (const [tensor, array] of shard) {
      weightMap[tensor] = name;
      array.dispose();
    }
  }
  const index = { metadata: { total_size: bytes }, weight_map: weightMap };
  await writeJson(folder, 'model.safetensors.index.json', index);
  return { bytes, tensors: tensors.size };
}
