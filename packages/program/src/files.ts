/** Reading the files of an export: sizes, hashes, JSON by a schema. */
import { createHash } from 'node:crypto';
import { createReadStream, readFileSync, statSync } from 'node:fs';
import { checkRegularFile, printable, ProgramError, systemReason } from '@mlx-runners/mlx-core';
import { issueReason } from '@mlx-runners/mlx-core/check-options';
import { throwIfAborted } from '@mlx-runners/mlx-core/errors';
import type { z } from 'zod';

export interface FileFacts {
  bytes: number;
  sha256: string;
}

export function sha256(content: string | Uint8Array): string {
  return createHash('sha256').update(content).digest('hex');
}

/**
 * Size and hash of a file of any size.
 *
 * @throws ProgramError when it can't be read
 */
export async function fileFacts(path: string, signal?: AbortSignal): Promise<FileFacts> {
  const hash = createHash('sha256');
  let bytes = 0;
  try {
    checkRegularFile(path);
    for await (const block of createReadStream(path, { highWaterMark: 1 << 20, signal })) {
      hash.update(block as Buffer);
      bytes += (block as Buffer).length;
    }
  } catch (error) {
    throwIfAborted(signal);
    throw unreadable(path, error);
  }
  return { bytes, sha256: hash.digest('hex') };
}

/** In bytes; undefined where no file is. */
export function fileSize(path: string): number | undefined {
  try {
    const stats = statSync(path);
    return stats.isFile() ? stats.size : undefined;
  } catch {
    return undefined;
  }
}

/** @throws ProgramError when it can't be read, or has more bytes than may be */
export function readText(path: string, mostBytes: number): string {
  try {
    checkRegularFile(path);
    const { size } = statSync(path);
    if (size > mostBytes) {
      throw new ProgramError(`${path} has ${size} bytes, and may have ${mostBytes} at most.`);
    }
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (error instanceof ProgramError) throw error;
    throw unreadable(path, error);
  }
}

function unreadable(path: string, cause: unknown): ProgramError {
  return new ProgramError(`${path} can't be read: ${systemReason(cause)}.`, { cause });
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
  const problems = result.error.issues.slice(0, 3).map((issue) => {
    // Zod speaks of JavaScript's values, of which JSON lacks one.
    const reason = issueReason(issue)
      .replace(/^Invalid input: /, '')
      .replace('received undefined', 'missing');
    const place = issue.path.length > 0 ? `${printable(issue.path.join('.'), 60)}: ` : '';
    return place + printable(reason, 80);
  });
  throw new ProgramError(`${path} is not ${what}: ${problems.join('; ')}.`);
}
