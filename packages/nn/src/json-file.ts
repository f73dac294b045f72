/** JSON files of a model folder: read, and held against a schema. */
import { readFileSync } from 'node:fs';
import { checkRegularFile, CheckpointError, printable, systemReason } from '@mlx-runners/mlx-core';
import type { z } from 'zod';

/** @throws CheckpointError where the file can't be read or is not JSON */
export function readJsonFile(path: string): unknown {
  let text: string;
  try {
    checkRegularFile(path);
    text = readFileSync(path, 'utf8');
  } catch (cause) {
    if (cause instanceof CheckpointError) throw cause;
    throw new CheckpointError(`${path} can't be read: ${systemReason(cause)}.`, { cause });
  }
  try {
    return JSON.parse(text) as unknown;
  } catch (cause) {
    throw new CheckpointError(`${path} is not JSON: ${printable((cause as Error).message)}`, {
      cause,
    });
  }
}

/**
 * The value as the schema has it.
 *
 * @param what what the source should be: `an index of safetensors files`
 * @throws CheckpointError that names the first fields that are missing or wrong
 */
export function fitted<Schema extends z.ZodType>(
  value: unknown,
  schema: Schema,
  source: string,
  what: string,
): z.output<Schema> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const { issues } = parsed.error;
  const shown = issues.slice(0, 5).map(({ path, message }) => {
    const place = path.length > 0 ? `${printable(path.join('.'), 60)}: ` : '';
    // Zod speaks of JavaScript's values, of which JSON lacks one.
    const reason = message.replace(/^Invalid input: /, '').replace('received undefined', 'missing');
    return place + printable(reason, 60);
  });
  const more = issues.length > 5 ? ` … and ${issues.length - 5} more` : '';
  throw new CheckpointError(`${source} is not ${what}: ${shown.join('; ')}${more}.`, {
    cause: parsed.error,
  });
}
