import { readFile } from 'node:fs/promises';
import { basename, extname } from 'node:path';
import { CheckpointError, systemReason } from '@mlx-runners/mlx-core/errors';
import { mx, type MxArray } from '@mlx-runners/mlx-core';

/** Tensors (weights under `w.<checkpoint name>`), and what computed them. */
export interface TensorGolden {
  readonly kind: 'tensors';
  readonly path: string;
  readonly metadata: GoldenMetadata;
  readonly tensors: ReadonlyMap<string, MxArray>;
}

export interface GoldenMetadata {
  /** The model's config.json; undefined for goldens without a model. */
  readonly config?: Readonly<Record<string, unknown>>;
  readonly source: string;
  readonly notes: string;
}

/** A golden that is a JSON file; its checker knows its content. */
export interface JsonGolden {
  readonly kind: 'json';
  readonly path: string;
  readonly json: unknown;
}

export type GoldenFixture = TensorGolden | JsonGolden;

/** Reads a `.safetensors` file: `mx.loadSafetensors`, or a stand-in for tests. */
export type LoadTensors = (path: string) => {
  readonly tensors: ReadonlyMap<string, MxArray>;
  readonly metadata: Readonly<Record<string, string>>;
};

/** @throws CheckpointError where the file can't be read or is no golden. */
export async function readGolden(
  path: string,
  load: LoadTensors = mx.loadSafetensors,
): Promise<GoldenFixture> {
  switch (extname(path)) {
    case '.json':
      return { kind: 'json', path, json: parseJson(path, await readText(path)) };
    case '.safetensors': {
      const { tensors, metadata } = load(path);
      const { config, source = '', notes = '' } = metadata;
      if (config === undefined)
        return { kind: 'tensors', path, metadata: { source, notes }, tensors };
      const parsed = parseJson(`The config in ${path}`, config) as Record<string, unknown>;
      return { kind: 'tensors', path, metadata: { config: parsed, source, notes }, tensors };
    }
    default:
      throw new CheckpointError(`${basename(path)} is no golden: those are .safetensors or .json`);
  }
}

async function readText(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (cause) {
    throw new CheckpointError(`${path} can't be read: ${systemReason(cause)}.`, { cause });
  }
}

function parseJson(what: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new CheckpointError(`${what} is not JSON: ${(cause as Error).message}`, { cause });
  }
}
