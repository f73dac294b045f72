import { HubError } from '@mlx-runners/mlx-core/errors';
import { lstat, readlink, realpath, rm } from 'node:fs/promises';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { writingTo } from './cache-errors.js';
import { listModels, noSuchModel, totalSize, type CachedModel } from './cached-models.js';
import { huggingFaceCache, mlxRunnersCache } from './environment.js';
import { withLock } from './file-lock.js';
import { mirrorsFolder, mirrorsLock } from './mirror-cache.js';
import type { ModelSources } from './model-sources.js';
import { filesBelow, isFolder } from './paths.js';
import {
  cachedCommit,
  cachedCommits,
  cachedRefs,
  listingPath,
  removeEmptyFolders,
  repoFolder,
  repoLock,
  snapshotPath,
} from './snapshot-cache.js';

export interface RemoveOptions {
  /**
   * Only this commit, branch or tag, and the mirror that stands for it. Without: all of the model,
   * mirrors and unfinished downloads too.
   */
  revision?: string | undefined;
  /** `models` of runner.json: says which revision a mirror stands for. */
  models?: ModelSources | undefined;
}

/**
 * Removes a model from the caches. Blobs that another revision needs stay, and so does whatever
 * links lead to outside of the model's folder.
 *
 * @param id as on the hub; nothing else is taken for it
 * @returns the bytes that were freed
 * @throws HubError when there is no such model, when another process is fetching it, or when files can't be removed
 */
export async function removeModel(
  id: string,
  { revision, models }: RemoveOptions = {},
): Promise<{ bytes: number }> {
  const rows = await listModels({ id, models });
  if (rows.length === 0) throw await noSuchModel(id, revision);
  const onWait = () => {
    throw new HubError(`${id} is being fetched by another process: stop that one first.`);
  };
  const inCache = <T>(work: () => Promise<T>) =>
    writingTo(huggingFaceCache(), 'HF_HUB_CACHE', () => withLock(repoLock(id), { onWait }, work));
  const removeMirror = (folder: string) =>
    writingTo(mlxRunnersCache(), 'MLX_RUNNERS_CACHE', () =>
      withLock(mirrorsLock(id), { onWait }, () => removeFolder(folder)),
    );
  let bytes = 0;
  if (revision !== undefined) {
    const commit = await cachedCommit(id, revision);
    const mirror = rows.find((row) => row.source === 'mirror' && isNamed(row, revision));
    if (commit === undefined && mirror === undefined) throw await noSuchModel(id, revision);
    if (commit !== undefined) bytes += await inCache(() => removeSnapshot(id, commit));
    if (mirror !== undefined) bytes += await removeMirror(mirror.path);
    return { bytes };
  }
  if (await isFolder(repoFolder(id))) bytes += await inCache(() => removeFolder(repoFolder(id)));
  if (await isFolder(mirrorsFolder(id))) bytes += await removeMirror(mirrorsFolder(id));
  return { bytes };
}

/** By its whole name, or by as much of a commit as names a snapshot. */
function isNamed({ revision }: CachedModel, name: string): boolean {
  return revision === name || (/^[0-9a-f]{7,}$/.test(name) && revision?.startsWith(name) === true);
}

/** Links are removed, never followed. */
async function removeFolder(folder: string): Promise<number> {
  const isLink = (await lstat(folder)).isSymbolicLink();
  const files = isLink ? [] : await filesBelow(folder);
  const bytes = await totalSize(files.map((file) => join(folder, file)));
  await rm(folder, { recursive: true, force: true });
  return bytes;
}

async function removeSnapshot(id: string, commit: string): Promise<number> {
  await checkIsInside(id);
  const unneeded = new Set(await blobsOf(id, commit));
  for (const other of await cachedCommits(id)) {
    if (other === commit) continue;
    for (const blob of await blobsOf(id, other)) unneeded.delete(blob);
  }
  const copies = await filesBelow(snapshotPath(id, commit));
  const paths = [...unneeded].map((name) => join(repoFolder(id), 'blobs', name));
  const bytes =
    (await totalSize(paths)) +
    (await totalSize(copies.map((name) => join(snapshotPath(id, commit), name))));
  // In this order, so that what is left when this is interrupted is whole.
  for (const [name, target] of await cachedRefs(id)) {
    if (target === commit) await rm(join(repoFolder(id), 'refs', name), { force: true });
  }
  await rm(snapshotPath(id, commit), { recursive: true, force: true });
  await rm(listingPath(id, commit), { force: true });
  for (const path of paths) await rm(path, { force: true });
  await removeEmptyFolders(id);
  return bytes;
}

/** Names of the blobs that a snapshot links to. */
async function blobsOf(id: string, commit: string): Promise<string[]> {
  const snapshot = snapshotPath(id, commit);
  const blobs = join(repoFolder(id), 'blobs');
  const names = await filesBelow(snapshot);
  const targets = await Promise.all(
    names.map(async (name) => {
      const link = await readlink(join(snapshot, name)).catch(() => undefined);
      const target = link && resolve(dirname(join(snapshot, name)), link);
      return target && dirname(target) === blobs ? [basename(target)] : [];
    }),
  );
  return targets.flat();
}

/** A folder of the cache may itself be a link to another disk, or to anywhere. */
async function checkIsInside(id: string): Promise<void> {
  const cache = await realpath(huggingFaceCache());
  for (const name of ['blobs', 'snapshots', 'refs', 'trees']) {
    const folder = join(repoFolder(id), name);
    const real = await realpath(folder).catch(() => undefined);
    if (real !== undefined && relative(cache, real).startsWith('..')) {
      throw new HubError(`${folder} leads out of the cache: remove what it holds by hand.`);
    }
  }
}
