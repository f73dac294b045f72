/** What lies in the caches: snapshots of the Hugging Face cache, and mirrors. */

import { HubError } from '@mlx-runners/mlx-core/errors';
import { lstat, readdir, realpath } from 'node:fs/promises';
import { join } from 'node:path';
import { huggingFaceCache, mlxRunnersCache } from './environment.js';
import { mirroredIds, mirrorFolder, mirrorsFolder, readProvenance } from './mirror-cache.js';
import { findModelSource, type ModelSource, type ModelSources } from './model-sources.js';
import { fileSize, filesBelow } from './paths.js';
import { missingFiles, type RepoFile } from './repo-files.js';
import {
  blobPath,
  cachedCommits,
  cachedIds,
  cachedRefs,
  repoFolder,
  snapshotPath,
  unfinishedCommits,
} from './snapshot-cache.js';
import { readListing } from './tree-listing.js';

export interface CachedModel {
  id: string;
  source: 'cache' | 'mirror';
  /**
   * The commit of a snapshot; of a mirror what `models` pins, for which it stands. Absent for what
   * was only begun, and for mirrors that `models` does not define (any more).
   */
  revision?: string;
  /** Branches and tags that stand for the commit. */
  refs: string[];
  /** The folder with its files. */
  path: string;
  files: number;
  /** On disk; files that two revisions share count for both. */
  bytes: number;
  /** Names of files that it lacks of those that `models` wants (of all, where that says nothing). */
  missing: string[];
}

export interface ListOptions {
  /** Only of this model. */
  id?: string | undefined;
  /** `models` of runner.json: says which files of a model are wanted. */
  models?: ModelSources | undefined;
}

/** The models in the caches, in the order of their ids: a row for each revision, and for what was only begun. */
export async function listModels({ id, models = {} }: ListOptions = {}): Promise<CachedModel[]> {
  const isWanted = (candidate: string) => id === undefined || candidate === id;
  const ids = new Set([...(await cachedIds()), ...(await mirroredIds())].filter(isWanted));
  const rows: CachedModel[] = [];
  for (const each of [...ids].sort()) {
    const source = findModelSource(models, each)?.source;
    rows.push(...(await listSnapshots(each, source?.files)), ...(await listMirrors(each, source)));
  }
  return rows;
}

/** Tells which models there are. @throws HubError */
export async function noSuchModel(id: string, revision: string | undefined): Promise<HubError> {
  const ids = [...new Set((await listModels()).map((model) => model.id))];
  const what = revision === undefined ? id : `${id} at "${revision}"`;
  const places = `${huggingFaceCache()} or ${mlxRunnersCache()}`;
  return new HubError(`${what} is not in ${places}; there is ${ids.join(', ') || 'nothing'}.`);
}

async function listSnapshots(id: string, wanted: string[] | undefined): Promise<CachedModel[]> {
  const commits = await cachedCommits(id);
  const refs = await cachedRefs(id);
  const rows = await Promise.all(
    commits.map(async (commit): Promise<CachedModel> => {
      const path = snapshotPath(id, commit);
      const names = await filesBelow(path);
      const blobs = await Promise.all(
        names.map((name) => realpath(join(path, name)).catch(() => '')),
      );
      return {
        id,
        source: 'cache',
        revision: commit,
        refs: [...refs].flatMap(([name, target]) => (target === commit ? [name] : [])),
        path,
        files: names.length,
        bytes: await totalSize([...new Set(blobs)]),
        missing: await missingFiles(path, await readListing(id, commit), wanted),
      };
    }),
  );
  return commits.length > 0 ? rows : listUnfinished(id, wanted);
}

/** A download that was interrupted before its first snapshot. */
async function listUnfinished(id: string, wanted: string[] | undefined): Promise<CachedModel[]> {
  const path = join(repoFolder(id), 'blobs');
  const blobs = await filesBelow(path);
  if (blobs.length === 0) return [];
  const [commit] = await unfinishedCommits(id);
  const listing = commit && (await readListing(id, commit));
  const sizeOf = (file: RepoFile) => fileSize(blobPath(id, file));
  const missing = listing ? await missingFiles(path, listing, wanted, sizeOf) : ['any snapshot'];
  const bytes = await totalSize(blobs.map((name) => join(path, name)));
  return [{ id, source: 'cache', refs: [], path, files: 0, bytes, missing }];
}

async function listMirrors(id: string, source: ModelSource | undefined): Promise<CachedModel[]> {
  const defined = source?.mirror && mirrorFolder(id, source.mirror);
  const names = await readdir(mirrorsFolder(id)).catch(() => []);
  const rows = await Promise.all(
    names.sort().map(async (name): Promise<CachedModel | undefined> => {
      const path = join(mirrorsFolder(id), name);
      const isFinished = !name.startsWith('.');
      const files = await filesBelow(path);
      if (files.length === 0) return undefined;
      const held = (await readProvenance(path))?.files;
      const sizes = await Promise.all(
        (held ?? []).map(async ({ path: file, bytes }) =>
          (await fileSize(join(path, file))) === bytes ? [] : [file],
        ),
      );
      return {
        id,
        source: 'mirror',
        ...(path === defined && source?.revision && { revision: source.revision }),
        refs: [],
        path,
        files: isFinished ? files.length : 0,
        bytes: await totalSize(files.map((file) => join(path, file))),
        missing: held ? sizes.flat() : ['mirror.json'],
      };
    }),
  );
  return rows.filter((row) => row !== undefined);
}

/** Of the files themselves: a link counts for nothing. */
export async function totalSize(paths: string[]): Promise<number> {
  const sizes = await Promise.all(
    paths.map(async (path) => {
      const info = await lstat(path).catch(() => undefined);
      return info?.isFile() ? info.size : 0;
    }),
  );
  return sizes.reduce((sum, size) => sum + size, 0);
}
