import { HubError, throwIfAborted } from '@mlx-runners/mlx-core/errors';
import { createHash, randomUUID, type Hash } from 'node:crypto';
import { mkdir, open, rename, rm, type FileHandle } from 'node:fs/promises';
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  listRepoFiles,
  requestFile,
  resolveCommit,
  RETRY_WAITS,
  type RequestOptions,
} from './hub-client.js';
import { fileSize } from './paths.js';
import type { TransferOptions } from './progress.js';
import { selectFiles, writeListing, type RepoFile } from './repo-files.js';
import { blobPath, placeSnapshot, repoFolderName, writeRef } from './snapshot-cache.js';

export interface SnapshotRequest {
  id: string;
  revision: string;
  /** Names or patterns; all files without. */
  files: string[] | undefined;
}

/**
 * Brings the wanted files of a model into the Hugging Face cache; blobs that are there are kept.
 *
 * @returns the snapshot's folder and commit; the folder appears when all its files are there
 * @throws HubError, HubUnreachableError when there is no connection, AbortedError
 */
export async function downloadSnapshot(
  { id, revision, files: patterns }: SnapshotRequest,
  options: TransferOptions & RequestOptions,
): Promise<{ path: string; commit: string }> {
  const commit = await resolveCommit(id, revision, options);
  const listed = await listRepoFiles(id, commit, options);
  await writeListing(repoFolderName(id), commit, listed);
  const files = selectFiles(listed, patterns);
  if (files.length === 0) {
    throw new HubError(`${id} at "${revision}" has no files of those wanted.`);
  }
  const transfer = { signal: options.signal, onProgress: options.onProgress };
  for (const file of files) await downloadBlob(id, commit, file, transfer);
  const path = await placeSnapshot(id, commit, files);
  await writeRef(id, revision, commit);
  return { path, commit };
}

async function downloadBlob(
  id: string,
  commit: string,
  file: RepoFile,
  options: TransferOptions,
): Promise<void> {
  const blob = blobPath(id, file);
  if ((await fileSize(blob)) === file.size) return;
  await mkdir(dirname(blob), { recursive: true });
  // Each download has a file of its own: nothing here keeps two processes from fetching one blob.
  const incomplete = `${blob}.${randomUUID()}.incomplete`;
  const handle = await open(incomplete, 'wx');
  try {
    await receive(id, commit, file, handle, options);
    await handle.close();
    await rename(incomplete, blob);
  } finally {
    await handle.close();
    await rm(incomplete, { force: true });
  }
}

/** Writes the file's content; goes on where a connection broke off; checks size and checksum. */
async function receive(
  id: string,
  commit: string,
  file: RepoFile,
  handle: FileHandle,
  { signal, onProgress }: TransferOptions,
): Promise<void> {
  const what = `${file.path} of ${id}`;
  let bytes = 0;
  let hash = newHash(file);
  const report = () => onProgress?.({ file: file.path, bytes, totalBytes: file.size });
  report();
  for (let attempt = 0; bytes < file.size; attempt++) {
    const before = bytes;
    const response = await requestFile(id, commit, file.path, bytes, { signal });
    if (response.status !== 206) {
      bytes = 0;
      hash = newHash(file);
    }
    try {
      for await (const chunk of chunksOf(response)) {
        await handle.write(chunk, 0, chunk.length, bytes);
        hash.update(chunk);
        bytes += chunk.length;
        if (bytes > file.size) break;
        report();
      }
    } catch (error) {
      throwIfAborted(signal);
      // A disk that is full stays full; a connection that broke can be made again.
      if ((error as NodeJS.ErrnoException).syscall === 'write') {
        throw new HubError(`Can't write ${what}: ${(error as Error).message}.`, { cause: error });
      }
    }
    if (bytes > before) attempt = 0;
    if (bytes >= file.size) break;
    const wait = RETRY_WAITS[attempt];
    if (wait === undefined) {
      throw new HubError(
        `The connection broke off again and again: ${bytes} of ${file.size} bytes of ${what}.`,
      );
    }
    await sleep(wait, undefined, { signal }).catch(() => throwIfAborted(signal));
  }
  checkContent(what, file, bytes, hash);
}

function checkContent(what: string, file: RepoFile, bytes: number, hash: Hash): void {
  if (bytes !== file.size) {
    throw new HubError(`${what} should have ${file.size} bytes, and more were served.`);
  }
  const found = hash.digest('hex');
  if (found !== file.oid) {
    const kind = file.oid.length === 64 ? 'sha256' : 'git blob id';
    throw new HubError(`${what} is not what was listed: ${kind} ${file.oid}, found ${found}.`);
  }
}

async function* chunksOf(response: Response): AsyncGenerator<Uint8Array> {
  if (response.body) yield* response.body as AsyncIterable<Uint8Array>;
}

/** LFS files are named by their sha256, others as git names blobs. */
function newHash({ oid, size }: RepoFile): Hash {
  return oid.length === 64 ? createHash('sha256') : createHash('sha1').update(`blob ${size}\0`);
}
