import { HubError } from '@mlx-runners/mlx-core/errors';
import { lstat, readlink, realpath, rm } from 'node:fs/promises';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { writingTo } from './cache-errors.js';
import { listModels, noSuchModel, totalSize } from './cached-models.js';
import { huggingFaceCache, mlxRunnersCache } from './environment.js';
import { withLock } from './file-lock.js';
import { mirrorsFolder, mirrorsLock } from './mirror-cache.js';
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
  /** Only this commit, branch or tag. Without: all of the model, mirrors and unfinished downloads too. */
  revision?: string | undefined;
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
  { revision }: RemoveOptions = {},
): Promise<{ bytes: number }> {
  if ((await listModels({ id })).length === 0) throw await noSuchModel(id, revision);
  const onWait = () => {
    throw new HubError(`${id} is being fetched by another process: stop that one first.`);
  };
  const inCache = <T>(work: () => Promise<T>) =>
    writingTo(huggingFaceCache(), 'HF_HUB_CACHE', () => withLock(repoLock(id), { onWait }, work));
  if (revision !== undefined) return inCache(() => removeSnapshot(id, revision));
  let bytes = 0;
  if (await isFolder(repoFolder(id))) bytes += await inCache(() => removeFolder(repoFolder(id)));
  if (await isFolder(mirrorsFolder(id))) {
    const remove = () => removeFolder(mirrorsFolder(id));
    bytes += await writingTo(mlxRunnersCache(), 'MLX_RUNNERS_CACHE', () =>
      withLock(mirrorsLock(id), { onWait }, remove),
    );
  }
  return { bytes };
}

/** Links are removed, never followed. */
async function removeFolder(folder: string): Promise<number> {
  const isLink = (await lstat(folder)).isSymbolicLink();
  const files = isLink ? [] : await filesBelow(folder);
  const bytes = await totalSize(files.map((file) => join(folder, file)));
  await rm(folder, { recursive: true, force: true });
  return bytes;
}

async function removeSnapshot(id: string, revision: string): Promise<{ bytes: number }> {
  const commit = await cachedCommit(id, revision);
  if (commit === undefined) throw await noSuchModel(id, revision);
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
  return { bytes };
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
