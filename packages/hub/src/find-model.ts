import { HubError } from '@mlx-runners/mlx-core/errors';
import { stat } from 'node:fs/promises';
import { downloadSnapshot, type SnapshotRequest } from './download.js';
import { forcedSource, huggingFaceCache, isOffline, mlxRunnersCache } from './environment.js';
import { HubUnreachableError } from './hub-requests.js';
import { cachedMirror, placeMirror } from './mirror-cache.js';
import { findModelSource, modelId, type Mirror, type ModelSources } from './model-sources.js';
import { fileSize, isRelativeFile } from './paths.js';
import type { TransferOptions } from './progress.js';
import { missingFiles, type RepoFile } from './repo-files.js';
import {
  blobPath,
  cachedCommit,
  isCommit,
  snapshotPath,
  unfinishedCommits,
} from './snapshot-cache.js';
import { readListing } from './tree-listing.js';

export interface FindModelOptions extends TransferOptions {
  /** Branch, tag or commit. Default: the pinned one of `models`, else "main". */
  revision?: string | undefined;
  /** Names or patterns (`*`, `?`) of the files needed. Default: those of `models`, else all. */
  files?: string[] | undefined;
  /** `models` of the runner's runner.json: aliases, pins and mirrors. */
  models?: ModelSources | undefined;
  /**
   * Gets the content of config.json before weights are fetched from the hub. What it throws ends
   * the download and leaves nothing behind.
   */
  checkConfig?: ((config: unknown) => void) | undefined;
  /** Asks the hub what a branch or tag stands for today, though the cache knows an answer. */
  update?: boolean | undefined;
  /** Waits before the second, third … try of a request, in ms. Default: 0.5, 1, 2, 4 s. */
  retryWaits?: readonly number[] | undefined;
}

export interface ModelLocation {
  /** The model's folder; a file where a file's path was given. */
  path: string;
  source: 'path' | 'cache' | 'hub' | 'mirror';
  /** Id on the hub; absent for a path. */
  id?: string;
  /** Commit of a snapshot. */
  commit?: string;
  /** What the files of a mirror are. */
  format?: Mirror['format'];
}

/** With a mirror at hand there is no point in a long wait for a network that swallows requests. */
const TIMEOUT_WITH_MIRROR = 3_000;

/**
 * Finds a model's files, fetching them where they are not on this machine. In this order:
 * 1. an existing path is returned as it is;
 * 2. a snapshot in the Hugging Face cache that has all files wanted, without any request;
 * 3. the hub, into that cache;
 * 4. where the hub can't be reached, or `HF_HUB_OFFLINE` forbids to ask it, the model's mirror
 *    (offline: only one fetched earlier).
 * `MLX_RUNNERS_SOURCE=hub` leaves the mirror out, `=mirror` leaves 2 and 3 out.
 *
 * @throws HubError that says what was tried, AbortedError, UsageError for a bad MLX_RUNNERS_SOURCE
 */
export async function findModel(
  idOrPath: string,
  options: FindModelOptions = {},
): Promise<ModelLocation> {
  if (await stat(idOrPath).catch(() => undefined)) return { path: idOrPath, source: 'path' };
  const request = snapshotRequest(idOrPath, options);
  const forced = forcedSource();
  const mirror = forced === 'hub' ? undefined : mirrorOf(idOrPath, options);
  if (forced === 'mirror') {
    if (!mirror) throw new HubError(`MLX_RUNNERS_SOURCE asks for a mirror: ${noMirror(request)}.`);
    return isOffline() ? offlineModel(request, mirror) : fromMirror(request, mirror, options);
  }
  const cached = await cachedSnapshot(request, options.revision === undefined);
  if (cached.location && (isOffline() || !options.update)) return cached.location;
  if (isOffline()) return offlineModel(request, mirror, cached.missing);
  try {
    const hasMirror = mirror && (await cachedMirror(request.id, mirror)) !== undefined;
    const answerTimeout = hasMirror ? TIMEOUT_WITH_MIRROR : undefined;
    const { path, commit } = await downloadSnapshot(request, { ...options, answerTimeout });
    return { path, source: 'hub', id: request.id, commit };
  } catch (error) {
    if (!(error instanceof HubUnreachableError)) throw error;
    if (cached.location) return cached.location;
    if (mirror) return fromMirror(request, mirror, options, error);
    throw new HubError(`${error.message} ${request.id} is not in the cache; ${REMEDIES}`, {
      cause: error,
    });
  }
}

/** The path of a model's folder: findModel, for those who need not know where it came from. */
export async function resolveModel(idOrPath: string, options?: FindModelOptions): Promise<string> {
  return (await findModel(idOrPath, options)).path;
}

const REMEDIES =
  'connect to the network, set HF_ENDPOINT to a server that has it, or give the path of a folder.';

function snapshotRequest(idOrPath: string, options: FindModelOptions): SnapshotRequest {
  const id = modelId(idOrPath, options.models);
  const known = findModelSource(options.models ?? {}, id)?.source;
  const revision = options.revision ?? known?.revision ?? 'main';
  if (!isRelativeFile(revision)) throw new HubError(`"${revision}" can't be a revision.`);
  return { id, revision, files: options.files ?? known?.files };
}

/** A mirror stands for the pinned revision; who asks for another one doesn't want it. */
function mirrorOf(name: string, { models = {}, revision }: FindModelOptions): Mirror | undefined {
  const source = findModelSource(models, name)?.source;
  return revision === undefined || revision === source?.revision ? source?.mirror : undefined;
}

/**
 * The pinned revision decides what is downloaded. A whole `main` that another tool has put into the
 * cache is taken as well: the copy is shared, and no run needs the network to be told so.
 */
async function cachedSnapshot(
  request: SnapshotRequest,
  mainWillDo: boolean,
): Promise<{ location?: ModelLocation; missing: string[] }> {
  const { id, revision, files } = request;
  let missing: string[] = [];
  for (const name of new Set(mainWillDo ? [revision, 'main'] : [revision])) {
    const commit = await cachedCommit(id, name);
    if (!commit) continue;
    const path = snapshotPath(id, commit);
    const lacking = await missingFiles(path, await readListing(id, commit), files);
    if (lacking.length === 0) return { location: { path, source: 'cache', id, commit }, missing };
    if (missing.length === 0) missing = lacking;
  }
  return { missing: missing.length > 0 ? missing : await missingOfUnfinished(request) };
}

/** What an interrupted download still lacks: it has a list of files and blobs, but no snapshot. */
async function missingOfUnfinished({ id, revision, files }: SnapshotRequest): Promise<string[]> {
  const commits = isCommit(revision) ? [revision] : await unfinishedCommits(id);
  const listing = commits[0] && (await readListing(id, commits[0]));
  if (!listing) return [];
  const sizeOf = (file: RepoFile) => fileSize(blobPath(id, file));
  return missingFiles(snapshotPath(id, commits[0]), listing, files, sizeOf);
}

async function fromMirror(
  { id }: SnapshotRequest,
  mirror: Mirror,
  options: FindModelOptions,
  hubError?: HubError,
): Promise<ModelLocation> {
  try {
    const path = await placeMirror(id, mirror, options);
    return { path, source: 'mirror', id, format: mirror.format };
  } catch (error) {
    if (!hubError || !(error instanceof HubError)) throw error;
    throw new HubError(`${hubError.message} Its mirror failed too: ${error.message}`, {
      cause: error,
    });
  }
}

async function offlineModel(
  request: SnapshotRequest,
  mirror: Mirror | undefined,
  missing: string[] = [],
): Promise<ModelLocation> {
  const { id, revision } = request;
  const path = mirror && (await cachedMirror(id, mirror));
  if (path) return { path, source: 'mirror', id, format: mirror.format };
  const searched = mirror
    ? `${huggingFaceCache()}, its mirror not in ${mlxRunnersCache()}`
    : huggingFaceCache();
  const state =
    missing.length > 0
      ? `is incomplete in ${huggingFaceCache()}: ${missing.join(', ')} missing`
      : `is not in ${searched}`;
  throw new HubError(
    `${id} at "${revision}" ${state}, and HF_HUB_OFFLINE forbids to fetch it. ` +
      'Unset HF_HUB_OFFLINE once to fetch it, or give the path of a folder.',
  );
}

function noMirror({ id, revision }: SnapshotRequest): string {
  return `${id} has none at revision "${revision}"`;
}
