import { checkRegularFile, CheckpointError, printable, systemReason } from '@mlx-runners/mlx-core';
import { readFile } from 'node:fs/promises';

/** @throws CheckpointError for what is not a file, or can't be read */
export async function readBytes(file: string): Promise<Uint8Array> {
  try {
    checkRegularFile(file);
    return await readFile(file);
  } catch (cause) {
    if (cause instanceof CheckpointError) throw cause;
    throw new CheckpointError(`${file} can't be read: ${systemReason(cause)}.`, { cause });
  }
}

/** @throws CheckpointError for what can't be read, or is not JSON */
export async function readJson(file: string): Promise<unknown> {
  const text = new TextDecoder().decode(await readBytes(file));
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new CheckpointError(`${file} is not JSON: ${printable((cause as Error).message)}`, {
      cause,
    });
  }
}
