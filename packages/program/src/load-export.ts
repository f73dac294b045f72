/** An exported model: a folder that runs without the code of the model. */
import { mx, ProgramError } from '@mlx-runners/mlx-core';
import { printable } from '@mlx-runners/mlx-core/errors';
import type { Manifest } from './format.js';
import { ProgramModel } from './program-model.js';
import { checkedFolder, readConstants, readExport, type ReadExport } from './read-export.js';

export type ExportedModel = ProgramModel<Manifest>;

/**
 * Loads a folder that `exportModel` wrote. Weights are mapped, so that loading reads none of them.
 *
 * @throws ProgramError when anything in it is missing, changed, or doesn't fit together; CheckpointError for
 *   weights that can't be read
 */
export function loadExport(folder: string): ExportedModel {
  return modelOf(folder, readExport(checkedFolder('loadExport()', folder)));
}

/** The model of what was read from a folder. Throws as `loadExport`. */
export function modelOf(folder: string, { manifest, programs }: ReadExport): ExportedModel {
  return mx.tidy(() => {
    const constants = readConstants(folder, manifest);
    try {
      return new ProgramModel(manifest, programs, constants);
    } catch (cause) {
      if (!(cause instanceof ProgramError)) throw cause;
      throw new ProgramError(`${folder}: ${printable(cause.message, 400)}`, { cause });
    }
  });
}
