/**
 * Folders that appear whole or not at all: written beside their place, then renamed. What may be replaced is up to
 * the caller.
 *
 * This file loads nothing native, so that libraries and command lines can import it for free.
 */
import { randomBytes } from 'node:crypto';
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  statSync,
  realpathSync,
  renameSync,
  rmSync,
} from 'node:fs';
import { basename, dirname, join, relative, resolve, sep } from 'node:path';
import { FileError, systemReason } from './errors.js';
import { checkWritableFolder, makeFolder } from './whole-file.js';

/**
 * Why a folder that is there can't be replaced, in words to follow `it can't be replaced: `; undefined where it can.
 *
 * @param folder with links followed
 * @param files paths in it, with `/` on every system
 */
export type RefuseReplacing = (folder: string, files: Iterable<string>) => string | undefined;

/**
 * Whether a folder can be written by `replaceFolder`: to be asked before work whose result would be lost.
 *
 * @throws FileError when it can't
 */
export function checkReplaceable(folder: string, refusal: RefuseReplacing): void {
  const place = explained(folder, () => placeOf(folder));
  checkWritableFolder(dirname(place));
  explained(folder, () => checkContent(folder, place, refusal));
}

/**
 * Replaces a folder by what `write` puts into a draft of it. When that fails, the folder is what it was. Only
 * a process that is killed leaves its draft behind, as `<folder>.<random digits>.partial`.
 *
 * @throws FileError when the folder can't be written or replaced
 */
export async function replaceFolder<T>(
  folder: string,
  refusal: RefuseReplacing,
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
      checkContent(folder, place, refusal);
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

function checkContent(folder: string, place: string, refusal: RefuseReplacing): void {
  if (!existsSync(place)) return;
  const refuse = (why: string): never => {
    throw new FileError(`${folder} can't be replaced: ${why}.`);
  };
  if (!statSync(place).isDirectory()) refuse('it is a file');
  const [up] = relative(place, realpathSync(process.cwd())).split(sep);
  if (up !== '..') refuse('this process works in it');
  const why = refusal(place, filesIn(place));
  if (why !== undefined) refuse(why);
}

/** Their paths in the folder, with `/` on every system. Links are not followed. */
function* filesIn(folder: string, path: readonly string[] = []): Generator<string> {
  for (const entry of readdirSync(join(folder, ...path), { withFileTypes: true })) {
    const parts = [...path, entry.name];
    if (entry.isDirectory()) yield* filesIn(folder, parts);
    else yield parts.join('/');
  }
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
