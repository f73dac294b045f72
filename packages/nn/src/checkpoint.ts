/** The weights of a model folder, whatever it holds them in. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { CheckpointError, mx, type MxArray } from '@mlx-runners/mlx-core';
import { z } from 'zod';
import { readCTranslate2 } from './ctranslate2.js';

export type CheckpointFormat = 'safetensors' | 'ctranslate2';

export interface Checkpoint {
  format: CheckpointFormat;
  /** Tensors by their names in the file. */
  tensors: Map<string, MxArray>;
}

const shardIndex = z.object({ weight_map: z.record(z.string(), z.string()) });

function readShards(folder: string, indexPath: string): Map<string, MxArray> {
  let shards: string[];
  try {
    const index = shardIndex.parse(JSON.parse(readFileSync(indexPath, 'utf8')));
    shards = [...new Set(Object.values(index.weight_map))];
  } catch (error) {
    throw new CheckpointError(
      `${indexPath} is not an index of safetensors files: ${(error as Error).message}`,
      {
        cause: error,
      },
    );
  }
  // A shard is a file of this folder; an index that says otherwise is not to be followed.
  const outside = shards.filter((shard) => shard.includes('/') || shard.includes('\\'));
  if (outside.length > 0) {
    throw new CheckpointError(
      `${indexPath} names files outside its folder: ${outside.join(', ')}.`,
    );
  }
  const missing = shards.filter((shard) => !existsSync(join(folder, shard)));
  if (missing.length > 0) {
    throw new CheckpointError(`${folder} lacks ${missing.join(', ')}, which its index names.`);
  }
  return new Map(shards.flatMap((shard) => [...mx.loadSafetensors(join(folder, shard)).tensors]));
}

/**
 * Reads a folder's weights: `model.safetensors` (alone or in shards with an index), or CTranslate2's
 * `model.bin`.
 *
 * @throws CheckpointError when none of them is there, or one can't be read
 */
export function readCheckpoint(folder: string): Checkpoint {
  const at = (name: string): string => join(folder, name);
  if (existsSync(at('model.safetensors'))) {
    return { format: 'safetensors', tensors: mx.loadSafetensors(at('model.safetensors')).tensors };
  }
  if (existsSync(at('model.safetensors.index.json'))) {
    return {
      format: 'safetensors',
      tensors: readShards(folder, at('model.safetensors.index.json')),
    };
  }
  if (existsSync(at('model.bin'))) {
    return { format: 'ctranslate2', tensors: readCTranslate2(at('model.bin')) };
  }
  throw new CheckpointError(
    `${folder} has no weights: model.safetensors (or its index) or a CTranslate2 model.bin is needed.`,
  );
}
