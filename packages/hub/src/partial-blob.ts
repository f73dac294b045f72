/**
 * Parts of blobs, for later runs to go on with: `blobs/<id>.mlx-<random>.incomplete`. Python's
 * huggingface_hub names its own alike (`<id>.<random>.incomplete`) and doesn't go on with any.
 *
 * Who goes on with one renames it first. So even where two processes are at it at once, because a
 * lock failed, each has a name of its own, and only one of them can put a file in its final place.
 */

import { randomBytes } from 'node:crypto';
import { readdir, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';

const SUFFIX = '.incomplete';
/** Other programs don't heed our lock: their files are left alone until nobody has written to them for so long. */
const OTHERS_ARE_DONE = 10 * 60_000;

/** A name for a part of a blob. No file is made. */
export function newPartial(blob: string): string {
  return `${blob}.mlx-${randomBytes(4).toString('hex')}${SUFFIX}`;
}

/**
 * Takes the largest part of a blob that earlier runs left behind and removes the others; for the
 * holder of the model's lock.
 *
 * @returns its path, or a new one where there is no file
 */
export async function takePartial(blob: string): Promise<string> {
  const own = newPartial(blob);
  let isTaken = false;
  for (const { path } of await leftovers(blob)) {
    if (isTaken) await rm(path, { force: true });
    else
      isTaken = await rename(path, own).then(
        () => true,
        () => false,
      );
  }
  return own;
}

/** How many bytes of a blob earlier runs left, or another process has by now. */
export async function partialBytes(blob: string): Promise<number> {
  const [largest] = await leftovers(blob);
  return largest?.size ?? 0;
}

async function leftovers(blob: string): Promise<{ path: string; size: number }[]> {
  const start = `${basename(blob)}.`;
  const names = await readdir(dirname(blob)).catch(() => []);
  const found = await Promise.all(
    names
      .filter((name) => name.startsWith(start) && name.endsWith(SUFFIX.slice(1)))
      .map((name) => leftover(join(dirname(blob), name), name.startsWith(`${start}mlx-`))),
  );
  return found.flat().sort((a, b) => b.size - a.size);
}

async function leftover(path: string, isOurs: boolean): Promise<{ path: string; size: number }[]> {
  const info = await stat(path).catch(() => undefined);
  const isFree = isOurs || Date.now() - (info?.mtimeMs ?? 0) > OTHERS_ARE_DONE;
  return info?.isFile() && isFree ? [{ path, size: info.size }] : [];
}
