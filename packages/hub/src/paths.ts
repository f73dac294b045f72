import { randomUUID } from 'node:crypto';
import { mkdir, rename, stat, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';

/**
 * True for a '/'-separated path that stays below the folder it is joined to, on any system. Names
 * of files come from repositories and archives, so they are not to be trusted.
 */
export function isRelativeFile(path: string): boolean {
  const parts = path.split('/');
  return !/[\\:\0]/.test(path) && parts.every((part) => !['', '.', '..'].includes(part));
}

/** A file's size, or undefined where there is no file (a dangling link, for one). */
export async function fileSize(path: string): Promise<number | undefined> {
  const info = await stat(path).catch(() => undefined);
  return info?.isFile() ? info.size : undefined;
}

/** Writes a file so that others see all of it or nothing. */
export async function writeWhole(path: string, text: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  const beside = `${path}.${randomUUID()}`;
  await writeFile(beside, text);
  await rename(beside, path);
}

export async function isFolder(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined))?.isDirectory() ?? false;
}
