/** Reading the files of an export: sizes, hashes, JSON by a schema. */
import { createHash, type Hash } from 'node:crypto';
import { closeSync, fstatSync, openSync, readFileSync, readSync } from 'node:fs';
import { checkRegularFile, printable, ProgramError, systemReason } from '@mlx-runners/mlx-core';
import type { z } from 'zod';

export interface FileFacts {
  bytes: number;
  sha256: string;
}

export function sha256(content: string | Uint8Array): string {
  return createHash('sha256').update(content).digest('hex');
}

/** Size and hash of a file of any size. */
export function fileFacts(path: string): FileFacts {
  return reading(path, () => {
    const file = openSync(path, 'r');
    try {
      const hash = createHash('sha256');
      hashAll(file, hash);
      return { bytes: fstatSync(file).size, sha256: hash.digest('hex') };
    } finally {
      closeSync(file);
    }
  });
}

function hashAll(file: number, hash: Hash): void {
  const block = Buffer.alloc(1 << 20);
  for (;;) {
    const read = readSync(file, block, 0, block.length, null);
    if (read === 0) return;
    hash.update(block.subarray(0, read));
  }
}

/** @throws ProgramError when it can't be read */
export function readText(path: string): string {
  return reading(path, () => {
    checkRegularFile(path);
    return readFileSync(path, 'utf8');
  });
}

function reading<T>(path: string, read: () => T): T {
  try {
    return read();
  } catch (cause) {
    throw new ProgramError(`${path} can't be read: ${systemReason(cause)}.`, { cause });
  }
}

/**
 * @param what what the text should be: `a manifest`
 * @throws ProgramError that names the first fields that are missing or wrong
 */
export function parsed<Schema extends z.ZodType>(
  text: string,
  schema: Schema,
  path: string,
  what: string,
): z.output<Schema> {
  let json: unknown;
  let result: z.ZodSafeParseResult<z.output<Schema>>;
  try {
    json = JSON.parse(text);
    result = schema.safeParse(json);
  } catch (cause) {
    const reason =
      cause instanceof RangeError ? 'it is nested too deeply' : (cause as Error).message;
    throw new ProgramError(`${path} is not ${what}: ${printable(reason)}.`, { cause });
  }
  if (result.success) return result.data;
  const problems = result.error.issues.slice(0, 3).map(({ path: place, message }) => {
    // Zod speaks of JavaScript's values, of which JSON lacks one.
    const reason = message.replace(/^Invalid input: /, '').replace('received undefined', 'missing');
    const shown = place.length > 0 ? `${printable(place.join('.'), 60)}: ` : '';
    return shown + printable(reason, 80);
  });
  throw new ProgramError(`${path} is not ${what}: ${problems.join('; ')}.`);
}
