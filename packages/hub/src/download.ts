import { HubError, throwIfAborted } from '@mlx-runners/mlx-core/errors';
import { makeFolder } from '@mlx-runners/mlx-core/whole-file';
import { readFile, rm, statfs } from 'node:fs/promises';
import { downloadBlob } from './blob-download.js';
import { writingTo } from './cache-errors.js';
import { huggingFaceCache } from './environment.js';
import { withLock } from './file-lock.js';
import { listRepoFiles, resolveCommit, type ApiOptions } from './hub-api.js';
import { partialBytes } from './partial-blob.js';
import { fileSize } from './paths.js';
import { progressReporter, type TransferOptions } from './progress.js';
import { selectFiles, type RepoFile } from './repo-files.js';
import {
  blobPath,
  isCommit,
  makeRepoFolder,
  placeSnapshot,
  removeEmptyFolders,
  repoLock,
  writeRef,
} from './snapshot-cache.js';
import { readListing, writeListing } from './tree-listing.js';

export interface SnapshotRequest {
  id: string;
  revision: string;
  /** Names or patterns; all files without. */
  files: string[] | undefined;
}

export interface SnapshotOptions extends TransferOptions, ApiOptions {
  /** Gets the content of config.json before anything large is fetched; what it throws ends the download. */
  checkConfig?: ((config: unknown) => void) | undefined;
}

const CONFIG = 'config.json';

/**
 * Brings the wanted files of a model into the Hugging Face cache; blobs that are there are kept.
 * While another process fetches the model, it waits and then uses what that one fetched.
 *
 * @returns the snapshot's folder and commit; the folder appears when all its files are there
 * @throws HubError, HubUnreachableError when there is no connection, AbortedError
 */
export async function downloadSnapshot(
  { id, revision, files: patterns }: SnapshotRequest,
  options: SnapshotOptions,
): Promise<{ path: string; commit: string }> {
  const commit = isCommit(revision) ? revision : await resolveCommit(id, revision, options);
  const listing = (await readListing(id, commit)) ?? (await listRepoFiles(id, commit, options));
  const files = selectFiles(listing, patterns);
  if (files.length === 0) {
    throw new HubError(`${id} at "${revision}" has no files of those wanted.`);
  }
  const report = progressReporter(totalSize(files), options);
  const onWait = async () =>
    report(`waiting for another process that fetches ${id}`, sum(await bytesThere(id, files)));
  return writingTo(huggingFaceCache(), 'HF_HUB_CACHE', () =>
    withLock(repoLock(id), { signal: options.signal, onWait }, async () => {
      makeRepoFolder(id);
      await checkSpace(id, files);
      await fetchConfig(id, commit, files, options);
      await writeListing(id, commit, listing);
      await fetchBlobs(id, commit, files, report, options);
      const path = await placeSnapshot(id, commit, files);
      await writeRef(id, revision, commit);
      return { path, commit };
    }),
  );
}

/** config.json comes first: a model that can't be used is refused before its weights are fetched. */
async function fetchConfig(
  id: string,
  commit: string,
  files: RepoFile[],
  { checkConfig, ...options }: SnapshotOptions,
): Promise<void> {
  const config = files.find(({ path }) => path === CONFIG);
  if (!checkConfig || !config) return;
  const blob = blobPath(id, config);
  const wasThere = (await fileSize(blob)) === config.size;
  await downloadBlob(id, commit, config, { ...options, onBytes: () => undefined });
  try {
    checkConfig(parsedConfig(id, await readFile(blob, 'utf8')));
  } catch (error) {
    if (!wasThere) await rm(blob, { force: true });
    await removeEmptyFolders(id);
    throw error;
  }
}

function parsedConfig(id: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new HubError(`${CONFIG} of ${id} is not JSON: ${(error as Error).message}.`, {
      cause: error,
    });
  }
}

async function fetchBlobs(
  id: string,
  commit: string,
  files: RepoFile[],
  report: (file: string, bytes: number) => void,
  options: SnapshotOptions,
): Promise<void> {
  const there = await bytesThere(id, files);
  let total = sum(there);
  for (const [i, file] of files.entries()) {
    throwIfAborted(options.signal);
    const onBytes = (bytes: number) => {
      total += bytes - there[i];
      there[i] = bytes;
      report(file.path, total);
    };
    onBytes(there[i]);
    await downloadBlob(id, commit, file, { ...options, onBytes });
    onBytes(file.size);
  }
}

/** Of each file, what is in its blob or in a part of it. */
async function bytesThere(id: string, files: RepoFile[]): Promise<number[]> {
  return Promise.all(
    files.map(async (file) => {
      const blob = blobPath(id, file);
      return Math.min(file.size, (await fileSize(blob)) ?? (await partialBytes(blob)));
    }),
  );
}

function sum(numbers: number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}

function totalSize(files: RepoFile[]): number {
  return sum(files.map(({ size }) => size));
}

/** A disk that is too small is better known before hours of download than after. */
async function checkSpace(id: string, files: RepoFile[]): Promise<void> {
  const cache = huggingFaceCache();
  makeFolder(cache);
  const { bavail, bsize } = await statfs(cache);
  const free = bavail * bsize;
  const needed = totalSize(files) - sum(await bytesThere(id, files));
  if (needed <= free) return;
  throw new HubError(
    `${id} needs ${gigabytes(needed)}, and ${gigabytes(free)} are free in the cache ${cache}. ` +
      'Free some space, or set HF_HUB_CACHE to a folder on another disk.',
  );
}

function gigabytes(bytes: number): string {
  return `${(bytes / 1e9).toFixed(2)} GB`;
}
