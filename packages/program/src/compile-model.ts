/** Running a model as a program, without files. */
import { mx } from '@mlx-runners/mlx-core';
import { checkOptions } from '@mlx-runners/mlx-core/check-options';
import { z } from 'zod';
import { checkDescription, type ExportDescription } from './description.js';
import { originOf } from './export-model.js';
import { abortSignal } from './option-schemas.js';
import { ProgramModel } from './program-model.js';
import { signatureOf } from './signature.js';
import { traceModel } from './traced-model.js';

export interface CompileOptions {
  signal?: AbortSignal;
}

const compileOptions = z.strictObject({ signal: abortSignal() });

/**
 * A model's methods as a program that runs in this process, as `exportModel` and `loadExport` would give it but for
 * what takes long:
 *
 * - Methods are traced at a few sizes instead of some dozens, and not twice at one: for methods that are known to
 *   be right, which exporting them shows.
 * - Weights stay the arrays that they are, also mapped ones, and live as long as the program. Nothing makes
 *   others of them unless `qlinear` or `qembedding` asks for it: no layers are merged.
 * - `files` are not looked at.
 *
 * @throws UsageError for a description that makes no sense, ProgramError for what can't be traced, AbortedError
 *   when the signal fires
 */
export async function compileModel(
  given: ExportDescription,
  options: CompileOptions = {},
): Promise<ProgramModel> {
  const { signal } = checkOptions('compileModel()', compileOptions, options);
  const description = checkDescription('compileModel()', given);
  const { programs, states, constants } = await traceModel(description, { signal, inMemory: true });
  await mx.eval(...constants.values());
  const methods = programs.map((program) => [program.method, signatureOf(program)] as const);
  const manifest = { ...originOf(description), states, methods: Object.fromEntries(methods) };
  return new ProgramModel(manifest, programs, constants);
}
