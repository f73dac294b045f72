import { mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';

/**
 * Makes a folder that is never seen half-filled: where filling fails, what was there before stays.
 *
 * @template T
 * @param {string} folder
 * @param {(folder: string) => Promise<T>} fill gets an empty folder beside it, which then takes its place
 */
export async function replacedFolder(folder, fill) {
  const target = resolve(folder);
  mkdirSync(dirname(target), { recursive: true });
  const beside = mkdtempSync(`${target}.part-`);
  // One level deeper: what mkdtemp makes is for its owner alone, whatever the umask.
  const partial = join(beside, basename(target));
  try {
    mkdirSync(partial);
    const result = await fill(partial);
    rmSync(target, { recursive: true, force: true });
    renameSync(partial, target);
    return result;
  } finally {
    rmSync(beside, { recursive: true, force: true });
  }
}
