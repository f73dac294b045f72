/** Writing an exported model: trace, passes, weights, manifest. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { CheckpointError, mx, ProgramError } from '@mlx-runners/mlx-core';
import { checkOptions } from '@mlx-runners/mlx-core/check-options';
import { z } from 'zod';
import { checkDescription, type ExportDescription } from './description.js';
import { DraftFiles } from './draft-files.js';
import { loadExport } from './load-export.js';
import type { FileFacts } from './files.js';
import { formatVersion, manifestName, programPath, weightsName, type Manifest } from './format.js';
import { abortSignal } from './option-schemas.js';
import { packingOf } from './quantisation.js';
import { checkedFolder, manifestHash } from './read-export.js';
import { checkReplaceable, replaceFolder } from './replace-folder.js';
import { programText } from './serialise.js';
import { signatureOf } from './signature.js';
import { traceModel, type TracedModel } from './traced-model.js';

export interface ExportOptions {
  signal?: AbortSignal;
}

const exportOptions = z.strictObject({ signal: abortSignal() });

/**
 * Exports a model to a folder, which appears whole or not at all, once it was loaded. It replaces an earlier
 * export; a folder with anything else in it is refused. A link to a folder stays one.
 *
 * @throws UsageError for a description that makes no sense, ProgramError for what can't be traced or would not
 *   be loaded, FileError when the folder can't be written, AbortedError when the signal fires
 */
export async function exportModel(
  folder: string,
  given: ExportDescription,
  options: ExportOptions = {},
): Promise<Manifest> {
  checkedFolder('exportModel()', folder);
  const { signal } = checkOptions('exportModel()', exportOptions, options);
  const description = checkDescription('exportModel()', given, {
    ofMethod: programPath,
    others: [manifestName, weightsName],
  });
  checkReplaceable(folder);
  const model = await traceModel(description, { signal });
  return replaceFolder(folder, async (draft) => {
    const files = new DraftFiles(draft, signal);
    for (const program of model.programs) {
      const text = programText(program);
      await files.add(programPath(program.method), (place) => writeFileSync(place, text));
    }
    await files.add(weightsName, (place) => mx.saveSafetensors(place, model.constants));
    await files.copy(description.files);
    const manifest = manifestOf(description, model, files.facts);
    writeFileSync(join(draft, manifestName), `${JSON.stringify(manifest, undefined, 2)}\n`);
    checkLoads(draft, folder);
    return manifest;
  });
}

function manifestOf(
  description: ExportDescription,
  { programs, states }: TracedModel,
  files: Record<string, FileFacts>,
): Manifest {
  const methods = programs.map((program) => {
    return [program.method, { program: programPath(program.method), ...signatureOf(program) }];
  });
  const manifest = {
    formatVersion,
    ...originOf(description),
    states,
    methods: Object.fromEntries(methods) as Manifest['methods'],
    weights: [weightsName],
    files,
  } as const;
  // As JSON has it, so that the hash is that of what is read again.
  const plain = JSON.parse(JSON.stringify(manifest)) as Omit<Manifest, 'sha256'>;
  return { ...plain, sha256: manifestHash(plain) };
}

/** Where an export comes from, and what is published of it. */
export function originOf(
  description: ExportDescription,
): Pick<Manifest, 'mlx' | 'model' | 'dtype' | 'quantization' | 'constants'> {
  const { model, dtype, constants = {} } = description;
  return {
    mlx: mx.buildInfo().mlx,
    model,
    dtype,
    quantization: quantizationOf(description),
    constants,
  };
}

function quantizationOf(description: ExportDescription): Manifest['quantization'] {
  const { qlinear, qlinearEncoder, encoderMethods = [], qembedding } = description;
  if (!qlinear && !qlinearEncoder && !qembedding) return null;
  return {
    ...(qlinear && { linear: packingOf(qlinear) }),
    ...(qlinearEncoder && {
      encoder: { ...packingOf(qlinearEncoder), methods: [...encoderMethods] },
    }),
    ...(qembedding && { embedding: packingOf(qembedding) }),
  };
}

/** What the loader refuses is refused now, with its reasons and under the folder's own name. */
function checkLoads(draft: string, folder: string): void {
  try {
    loadExport(draft).dispose();
  } catch (cause) {
    if (!(cause instanceof ProgramError || cause instanceof CheckpointError)) throw cause;
    throw new ProgramError(cause.message.replaceAll(draft, folder), { cause });
  }
}
