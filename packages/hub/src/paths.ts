import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';

/**
 * True for a '/'-separated path that stays below the folder it is joined to, on any system. Names
 * of files come from repositories and archives, so they are not to be trusted.
 */
export function isRelativeFile(path: string): boolean {
  const parts = path.split('/');
  return !/[\\:\p{Cc}]/u.test(path) && parts.every((part) => !['', '.', '..'].includes(part));
}

/** A file's size, or undefined where there is no file (a dangling link, for one). */
export async function fileSize(path: string): Promise<number | undefined> {
  const info = await stat(path).catch(() => undefined);
  return info?.isFile() ? info.size : undefined;
}

export async function isFolder(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined))?.isDirectory() ?? false;
}

/** '/'-separated paths of all files below a folder, links among them; none where there is no folder. */
export async function filesBelow(folder: string, prefix = ''): Promise<string[]> {
  const files: string[] = [];
  for (const entry of await readdir(folder, { withFileTypes: true }).catch(() => [])) {
    const path = prefix + entry.name;
    if (!entry.isDirectory()) files.push(path);
    // Not as arguments of push(), of which there can't be hundreds of thousands.
    else
      for (const each of await filesBelow(join(folder, entry.name), `${path}/`)) files.push(each);
  }
  return files;
}
