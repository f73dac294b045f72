/** The weights of a model folder, whatever it holds them in. */
import { existsSync, readdirSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { CheckpointError, mx, printable, quoted, type MxArray } from '@mlx-runners/mlx-core';
import { z } from 'zod';
import { readCTranslate2 } from './ctranslate2.js';
import { fitted, readJsonFile } from './json-file.js';

export type CheckpointFormat = 'safetensors' | 'ctranslate2';

export interface Checkpoint {
  format: CheckpointFormat;
  /** Tensors by their names in the file. */
  tensors: Map<string, MxArray>;
}

const shardIndex = z.object({ weight_map: z.record(z.string(), z.string()) });

/** Every tensor that the index names, from the file that it names for it. */
function readShards(folder: string, indexPath: string): Map<string, MxArray> {
  const index = fitted(
    readJsonFile(indexPath),
    shardIndex,
    indexPath,
    'an index of safetensors files',
  );
  const places = Object.entries(index.weight_map);
  const shards = [...new Set(Object.values(index.weight_map))];
  // A shard is a file of this folder; an index that says otherwise is not to be followed.
  const outside = shards.find((shard) => basename(shard) !== shard || shard.includes('\\'));
  if (outside !== undefined) {
    throw new CheckpointError(
      `${indexPath} names ${quoted(outside)}, which is outside its folder.`,
    );
  }
  const missing = shards.find((shard) => !existsSync(join(folder, shard)));
  if (missing !== undefined) {
    throw new CheckpointError(`${folder} lacks ${printable(missing, 60)}, which its index names.`);
  }
  const read = new Map(
    shards.map((shard) => [shard, mx.loadSafetensors(join(folder, shard)).tensors]),
  );
  const absent = places.find(([name, shard]) => !read.get(shard)!.has(name));
  if (absent) {
    throw new CheckpointError(
      `${indexPath} says that ${printable(absent[1], 60)} holds ${quoted(absent[0])}, which it does not.`,
    );
  }
  const tensors = new Map([...read.values()].flatMap((shard) => [...shard]));
  const stored = [...read.values()].reduce((total, shard) => total + shard.size, 0);
  if (stored > tensors.size) {
    throw new CheckpointError(`${folder} has tensors of the same name in several files.`);
  }
  return tensors;
}

function safetensorsIn(folder: string): string[] {
  if (!statSync(folder, { throwIfNoEntry: false })?.isDirectory()) return [];
  return readdirSync(folder).filter((name) => name.endsWith('.safetensors'));
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
  const others = safetensorsIn(folder);
  if (others.length > 0) {
    throw new CheckpointError(
      `${folder} has ${printable(others.join(', '))} and no model.safetensors.index.json that says what is in them.`,
    );
  }
  throw new CheckpointError(
    `${folder} has no weights: model.safetensors (or its index) or a CTranslate2 model.bin is needed.`,
  );
}
