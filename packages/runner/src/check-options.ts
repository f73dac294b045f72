import { inspect } from 'node:util';
import { nearestName, printable, UsageError } from '@mlx-runners/mlx-core/errors';
import type { z } from 'zod';

/**
 * Holds the options of a call against their schema, a `z.strictObject`.
 *
 * @param call what the options are of, such as `load()`, for the message
 * @throws UsageError naming the first option that is unknown or wrong, and what would be right
 */
export function checkOptions<Schema extends z.ZodObject>(
  call: string,
  schema: Schema,
  options: unknown,
): z.output<Schema> {
  const parsed = schema.safeParse(options);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  if (issue.code === 'unrecognized_keys') {
    const [unknown] = issue.keys;
    const names = Object.keys(schema.shape);
    const nearest = nearestName(unknown, names);
    const hint = nearest ? `did you mean ${nearest}?` : `there are ${names.join(', ')}.`;
    throw new UsageError(`${call} has no option ${printable(unknown)}: ${hint}`);
  }
  const [name] = issue.path.map(String);
  if (name === undefined) {
    throw new UsageError(`The options of ${call} must be an object, not ${shown(options)}.`);
  }
  const value = (options as Record<string, unknown>)[name];
  throw new UsageError(`${name} ${issue.message}, not ${shown(value)}.`);
}

/** The options that a schema knows, of those that a command has. */
export function optionsOf(schema: z.ZodObject, values: object): object {
  return Object.fromEntries(Object.entries(values).filter(([name]) => name in schema.shape));
}

function shown(value: unknown): string {
  return inspect(value, {
    depth: 0,
    breakLength: Infinity,
    maxArrayLength: 5,
    maxStringLength: 50,
  });
}
