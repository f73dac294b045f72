/**
 * Files that appear whole or not at all: written beside their place under a random name, flushed to
 * the disk, then renamed. What was there before stays until the rename.
 *
 * This file loads nothing native, so that libraries and command lines can import it for free.
 */
import { randomBytes } from 'node:crypto';
import {
  accessSync,
  closeSync,
  constants,
  existsSync,
  fchmodSync,
  fsyncSync,
  mkdirSync,
  openSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs';
import { open, rename } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { FileError, systemReason } from './errors.js';

/** Where a file is written before it gets its name. */
interface Draft {
  /** The final path, links followed. */
  place: string;
  /** In the same folder, because a rename is atomic only within one file system. */
  beside: string;
  /** Of the file that is replaced. */
  mode: number | undefined;
}

// Opened with `wx`: never through a file or link that someone else put there.
const create = 'wx';
const newFileMode = 0o666; // less the umask

/**
 * Writes a file whole or not at all. Makes missing folders; replaces an existing file and keeps its
 * permissions. Nothing is left behind by an error or by a process that exits meanwhile (only by one
 * that is killed).
 *
 * @throws FileError when it can't be written
 */
export async function writeWholeFile(
  path: string,
  content: string | Uint8Array | AsyncIterable<string | Uint8Array>,
): Promise<void> {
  const draft = begin(path);
  try {
    const file = await open(draft.beside, create, draft.mode ?? newFileMode);
    try {
      if (draft.mode !== undefined) await file.chmod(draft.mode);
      // It takes iterables, too; its types don't say so.
      await file.writeFile(content as string);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(draft.beside, draft.place);
  } catch (error) {
    throw explained(error, path);
  } finally {
    end(draft);
  }
}

/** As `writeWholeFile`, but blocks the event loop. `write` gets the descriptor of the open file. */
export function writeWholeFileSync(path: string, write: (file: number) => void): void {
  const draft = begin(path);
  try {
    const file = openSync(draft.beside, create, draft.mode ?? newFileMode);
    try {
      if (draft.mode !== undefined) fchmodSync(file, draft.mode);
      write(file);
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
    renameSync(draft.beside, draft.place);
  } catch (error) {
    throw explained(error, path);
  } finally {
    end(draft);
  }
}

/**
 * Whether files can be written to a folder, which need not exist yet: to be asked before work whose
 * result would be lost.
 *
 * @throws FileError when they can't
 */
export function checkWritableFolder(folder: string): void {
  try {
    const existing = nearestExisting(folder);
    if (!existing.isFolder) throw notAFolder(folder, existing.path);
    accessSync(existing.path, constants.W_OK | constants.X_OK);
  } catch (error) {
    throw explained(error, folder);
  }
}

const drafts = new Set<string>();

function removeDrafts(): void {
  for (const draft of drafts) rmSync(draft, { force: true });
}

function begin(path: string): Draft {
  try {
    const { place, mode } = destination(path);
    const folder = dirname(place);
    makeFolder(folder);
    // A name of its own, so that any name that fits the file system can be written.
    const beside = join(folder, `.${randomBytes(8).toString('hex')}.partial`);
    if (drafts.size === 0) process.on('exit', removeDrafts);
    drafts.add(beside);
    return { place, beside, mode };
  } catch (error) {
    throw explained(error, path);
  }
}

/**
 * Makes a folder and those above it, as mkdir's `recursive`, which never returns where the system
 * has no folders to give (/proc). Throws the system's error.
 */
export function makeFolder(folder: string): void {
  if (existsSync(folder)) return;
  makeFolder(dirname(folder));
  try {
    mkdirSync(folder);
  } catch (error) {
    // Someone else may have made it just now.
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
}

/** Removes what was written, unless it has been renamed by now. */
function end({ beside }: Draft): void {
  rmSync(beside, { force: true });
  drafts.delete(beside);
  if (drafts.size === 0) process.off('exit', removeDrafts);
}

/** The file that a path leads to; a rename onto a link or device would replace that itself. */
function destination(path: string): Pick<Draft, 'place' | 'mode'> {
  let place: string;
  try {
    place = realpathSync(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return { place: path, mode: undefined };
    throw error;
  }
  const stats = statSync(place);
  if (stats.isFile()) return { place, mode: stats.mode & 0o777 };
  const what = stats.isDirectory() ? 'a folder' : 'a device or pipe';
  throw new FileError(`${path} can't be written: it is ${what}, not a file.`);
}

function nearestExisting(folder: string): { path: string; isFolder: boolean } {
  for (let path = folder; ; path = dirname(path)) {
    try {
      return { path, isFolder: statSync(path).isDirectory() };
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      const isMissing = code === 'ENOENT' || code === 'ENOTDIR';
      if (!isMissing || path === dirname(path)) throw error;
    }
  }
}

function notAFolder(path: string, file: string): FileError {
  const what = file === path ? 'it' : file;
  return new FileError(`${path} can't be written: ${what} is a file where a folder is needed.`);
}

/** What the system refused, as one message; other errors (of the content, say) as they are. */
function explained(error: unknown, path: string): unknown {
  if (!(error instanceof Error && 'syscall' in error && 'code' in error)) return error;
  if (error.code === 'ENOTDIR') return notAFolder(path, nearestExisting(dirname(path)).path);
  const why = error.code === 'ENOENT' ? "its folder can't be made" : systemReason(error);
  return new FileError(`${path} can't be written: ${why}.`, { cause: error });
}
