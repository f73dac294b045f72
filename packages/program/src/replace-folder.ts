/**
 * Folders that appear whole or not at all: written beside their place, then renamed. An export replaces an
 * earlier one and nothing else, not even a file that someone put beside the exported ones.
 */
import { randomBytes } from 'node:crypto';
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
} from 'node:fs';
import { basename, dirname, join, relative, resolve, sep } from 'node:path';
import { FileError } from '@mlx-runners/mlx-core';
import { quoted, systemReason } from '@mlx-runners/mlx-core/errors';
import { checkWritableFolder, makeFolder } from '@mlx-runners/mlx-core/whole-file';
import { fileSize } from './files.js';
import { manifestName } from './format.js';
import { mlxfnName } from './mlxfn-format.js';

/**
 * Whether a folder can be written by `replaceFolder`: to be asked before work whose result would be lost.
 *
 * @throws FileError when it can't
 */
export function checkReplaceable(folder: string): void {
  const place = explained(folder, () => placeOf(folder));
  checkWritableFolder(dirname(place));
  explained(folder, () => checkContent(folder, place));
}

/**
 * Replaces a folder by what `write` puts into a draft of it. When that fails, the folder is what it was. Only
 * a process that is killed leaves its draft behind, as `<folder>.<random digits>.partial`.
 *
 * @throws FileError when the folder can't be written or replaced
 */
export async function replaceFolder<T>(
  folder: string,
  write: (draft: string) => Promise<T>,
): Promise<T> {
  const place = explained(folder, () => placeOf(folder));
  // With the digits it may not be longer than the system's names.
  const name = `${basename(place).slice(0, 60)}.${randomBytes(6).toString('hex')}.partial`;
  const draft = join(dirname(place), name);
  const remove = (): void => rmSync(draft, { recursive: true, force: true });
  process.once('exit', remove);
  try {
    explained(folder, () => {
      makeFolder(dirname(draft));
      mkdirSync(draft);
    });
    const result = await write(draft);
    explained(folder, () => {
      checkContent(folder, place);
      swap(draft, place);
    });
    return result;
  } catch (error) {
    throw reasoned(folder, error);
  } finally {
    process.off('exit', remove);
    remove();
  }
}

/** The folder itself, links followed. */
function placeOf(folder: string): string {
  const path = resolve(folder);
  if (!lstatSync(path, { throwIfNoEntry: false })) return path;
  if (!existsSync(path)) {
    throw new FileError(`${folder} can't be written: it is a link to what is not there.`);
  }
  return realpathSync(path);
}

function checkContent(folder: string, place: string): void {
  if (!existsSync(place)) return;
  const refuse = (why: string): never => {
    throw new FileError(`${folder} can't be replaced: ${why}.`);
  };
  if (fileSize(place) !== undefined) refuse('it is a file');
  const [up] = relative(place, realpathSync(process.cwd())).split(sep);
  if (up !== '..') refuse('this process works in it');
  const exported = exportedFiles(place);
  for (const file of filesIn(place)) {
    if (!exported) refuse('it is no exported model');
    else if (!exported.has(file)) refuse(`${quoted(file)} in it is no file of the earlier export`);
  }
}

/** Their paths in the folder, with `/` on every system. Links are not followed. */
function* filesIn(folder: string, path: readonly string[] = []): Generator<string> {
  for (const entry of readdirSync(join(folder, ...path), { withFileTypes: true })) {
    const parts = [...path, entry.name];
    if (entry.isDirectory()) yield* filesIn(folder, parts);
    else yield parts.join('/');
  }
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

function swap(draft: string, place: string): void {
  if (!existsSync(place)) {
    renameSync(draft, place);
    return;
  }
  const old = `${draft}.old`;
  renameSync(place, old);
  try {
    renameSync(draft, place);
  } catch (error) {
    renameSync(old, place);
    throw error;
  }
  rmSync(old, { recursive: true, force: true });
}

function explained<T>(folder: string, fn: () => T): T {
  try {
    return fn();
  } catch (error) {
    throw reasoned(folder, error);
  }
}

/** What the system refused, as one message; other errors as they are. */
function reasoned(folder: string, error: unknown): unknown {
  if (!(error instanceof Error && 'syscall' in error)) return error;
  return new FileError(`${folder} can't be written: ${systemReason(error)}.`, { cause: error });
}
