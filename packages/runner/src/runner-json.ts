import { HubError } from '@mlx-runners/mlx-core/errors';
import { findModelSource, modelSourcesSchema } from '@mlx-runners/hub';
import { exportBudgetsSchema } from '@mlx-runners/program';
import { z } from 'zod';

/** runner.json, by which the workspace, the server and the runner's own commands know a runner. */
const runnerManifestSchema = z
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
    /** What `export-check` holds an exported model to. */
    exportBudgets: exportBudgetsSchema.optional(),
    /** Names of the constants that an export has to publish. */
    exportConstants: z.array(z.string()).optional(),
  })
  .refine(({ models, defaultModel }) => findModelSource(models, defaultModel) !== undefined, {
    path: ['defaultModel'],
    error: 'must be the id or an alias of one of the models',
  });

export type RunnerManifest = z.output<typeof runnerManifestSchema>;

/**
 * The content of a runner.json, checked. A runner imports its own, so that bundlers take it along:
 * `import content from '../runner.json' with { type: 'json' }`.
 *
 * @throws HubError where it doesn't fit; the message lists every mistake.
 */
export function parseRunnerManifest(content: unknown): RunnerManifest {
  const parsed = runnerManifestSchema.safeParse(content);
  if (parsed.success) return parsed.data;
  const mistakes = parsed.error.issues.map(({ path: place, message }) =>
    place.length ? `${place.join('.')}: ${message}` : message,
  );
  throw new HubError(`runner.json does not fit: ${mistakes.join('; ')}`, { cause: parsed.error });
}
