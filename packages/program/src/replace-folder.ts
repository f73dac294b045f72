/** Which folders an export may replace: earlier ones, and no file that someone put beside the exported ones. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { quoted } from '@mlx-runners/mlx-core/errors';
import * as folders from '@mlx-runners/mlx-core/replace-folder';
import { manifestName } from './format.js';
import { mlxfnName } from './mlxfn-format.js';

/**
 * Whether a folder can be written by `replaceFolder`: to be asked before work whose result would be lost.
 *
 * @throws FileError when it can't
 */
export function checkReplaceable(folder: string): void {
  folders.checkReplaceable(folder, refusal);
}

/**
 * Replaces a folder by what `write` puts into a draft of it; see mlx-core.
 *
 * @throws FileError when the folder can't be written or replaced
 */
export async function replaceFolder<T>(
  folder: string,
  write: (draft: string) => Promise<T>,
): Promise<T> {
  return await folders.replaceFolder(folder, refusal, write);
}

function refusal(folder: string, files: Iterable<string>): string | undefined {
  const exported = exportedFiles(folder);
  for (const file of files) {
    if (!exported) return 'it is no exported model';
    if (!exported.has(file)) return `${quoted(file)} in it is no file of the earlier export`;
  }
  return undefined;
}

/** What an earlier export wrote, be it of another version or damaged; undefined when there was none. */
function exportedFiles(folder: string): Set<string> | undefined {
  for (const name of [manifestName, mlxfnName]) {
    try {
      const text = readFileSync(join(folder, name), 'utf8');
      const { files } = JSON.parse(text) as { files: object };
      return new Set([name, ...Object.keys(files)]);
    } catch {
      // It is none of this kind.
    }
  }
  return undefined;
}
