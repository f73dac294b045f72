import type { z } from 'zod';

/** The options that a schema knows, of those that a command has. */
export function optionsOf(schema: z.ZodObject, values: object): object {
  return Object.fromEntries(
    Object.entries(values).filter(([name]) => Object.hasOwn(schema.shape, name)),
  );
}
