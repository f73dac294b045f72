import { readFileSync } from 'node:fs';
import type { z } from 'zod';
import type { MlxRunnersError } from '@mlx-runners/mlx-core/errors';

type ErrorClass = new (message: string, options?: ErrorOptions) => MlxRunnersError;

/**
 * Reads a JSON file and holds it against a schema.
 *
 * @throws `ErrorType` where the file can't be read, is no JSON, or doesn't fit; the message lists
 *   every mistake with its place.
 */
export function readJsonFile<Schema extends z.ZodType>(
  path: string,
  schema: Schema,
  ErrorType: ErrorClass,
): z.output<Schema> {
  let content: unknown;
  try {
    content = JSON.parse(readFileSync(path, 'utf8'));
  } catch (cause) {
    const reason = cause instanceof SyntaxError ? `is not JSON: ${cause.message}` : reasonOf(cause);
    throw new ErrorType(`${path} ${reason}`, { cause });
  }
  const parsed = schema.safeParse(content);
  if (parsed.success) return parsed.data;
  const mistakes = parsed.error.issues.map(({ path: place, message }) =>
    place.length ? `${place.join('.')}: ${message}` : message,
  );
  throw new ErrorType(`${path} does not fit: ${mistakes.join('; ')}`, { cause: parsed.error });
}

/** Why a file could not be read, in words that follow its name. */
export function reasonOf(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  if (code === 'ENOENT') return 'does not exist';
  if (code === 'EISDIR') return 'is a folder';
  if (code === 'EACCES') return 'may not be read';
  return `can't be read: ${message}`;
}
