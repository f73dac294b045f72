import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { HubError, systemReason } from '@mlx-runners/mlx-core/errors';
import { findModelSource, modelSourcesSchema } from '@mlx-runners/hub';
import { z } from 'zod';

/** What `export-check` holds an exported method to. */
const exportBudgetSchema = z.strictObject({
  /** The most calls of an op, by its name. */
  ops: z.record(z.string(), z.int().nonnegative()).optional(),
  /** The most bytes of its program, weights aside. */
  bytes: z.int().positive().optional(),
});

/** runner.json, by which the workspace, the server and the runner's own commands know a runner. */
export const runnerManifestSchema = z
  .strictObject({
    /** Short name: that of the folder, the Nx project and the command. */
    name: z.string().regex(/^[a-z0-9][a-z0-9.-]*$/, 'must be lower-case letters, digits, - and .'),
    /** For people: `Whisper speech recognition`. */
    title: z.string().min(1),
    /** What it does, in the terms of the server's routes: `transcribe`, `generate` … */
    tasks: z.array(z.string().regex(/^[a-z-]+$/)).min(1),
    models: modelSourcesSchema,
    /** Id or alias of one of `models`. */
    defaultModel: z.string(),
    /** By exported method. */
    exportBudgets: z.record(z.string(), exportBudgetSchema).optional(),
  })
  .refine(({ models, defaultModel }) => findModelSource(models, defaultModel) !== undefined, {
    path: ['defaultModel'],
    error: 'must be the id or an alias of one of the models',
  });

export type RunnerManifest = z.output<typeof runnerManifestSchema>;

/**
 * Reads the runner.json of a runner's folder, which lies beside its package.json in the workspace
 * and in the published package: `loadRunnerManifest(new URL('..', import.meta.url))`.
 *
 * @throws HubError where it can't be read or doesn't fit; the message lists every mistake.
 */
export function loadRunnerManifest(folder: string | URL): RunnerManifest {
  const path = join(typeof folder === 'string' ? folder : fileURLToPath(folder), 'runner.json');
  let content: unknown;
  try {
    content = JSON.parse(readFileSync(path, 'utf8'));
  } catch (cause) {
    const reason =
      cause instanceof SyntaxError
        ? `is not JSON: ${cause.message}`
        : `can't be read: ${systemReason(cause)}.`;
    throw new HubError(`${path} ${reason}`, { cause });
  }
  const parsed = runnerManifestSchema.safeParse(content);
  if (parsed.success) return parsed.data;
  const mistakes = parsed.error.issues.map(({ path: place, message }) =>
    place.length ? `${place.join('.')}: ${message}` : message,
  );
  throw new HubError(`${path} does not fit: ${mistakes.join('; ')}`, { cause: parsed.error });
}
