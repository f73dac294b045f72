/**
 * The Hugging Face cache, in the layout of Python's huggingface_hub:
 * `models--org--name/{blobs/<id>, refs/<revision>, snapshots/<commit>/<file>, trees/<commit>.json}`,
 * where the files of a snapshot are relative links to blobs.
 */

import { HubError } from '@mlx-runners/mlx-core/errors';
import { makeFolder, writeWholeFile } from '@mlx-runners/mlx-core/whole-file';
import { randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import {
  copyFile,
  lstat,
  readdir,
  readFile,
  rename,
  rm,
  rmdir,
  stat,
  symlink,
} from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { huggingFaceCache } from './environment.js';
import { fileSize, filesBelow, isFolder } from './paths.js';
import { contentId, type RepoFile } from './repo-files.js';

const PREFIX = 'models--';
const SUBFOLDERS = ['blobs', 'refs', 'snapshots', 'trees'] as const;

/** The folder of a model; file names can't hold the slash of its id. */
export function repoFolder(id: string): string {
  return join(huggingFaceCache(), PREFIX + id.replaceAll('/', '--'));
}

/** Ids of the models that have a folder in the cache. */
export async function cachedIds(): Promise<string[]> {
  const names = await readdir(huggingFaceCache()).catch(() => []);
  const folders = names.filter((name) => name.startsWith(PREFIX)).sort();
  return folders.map((name) => name.slice(PREFIX.length).replaceAll('--', '/'));
}

/** Held by who writes to the model's folder. It lies where Python has its own locks. */
export function repoLock(id: string): string {
  const folder = PREFIX + id.replaceAll('/', '--');
  return join(huggingFaceCache(), '.locks', folder, 'mlx-runners.lock');
}

export function blobPath(id: string, file: RepoFile): string {
  return join(repoFolder(id), 'blobs', contentId(file));
}

export function snapshotPath(id: string, commit: string): string {
  return join(repoFolder(id), 'snapshots', commit);
}

export function listingPath(id: string, commit: string): string {
  return join(repoFolder(id), 'trees', `${commit}.json`);
}

export function isCommit(revision: string): boolean {
  return /^[0-9a-f]{40}$/.test(revision);
}

/** The commit of a branch, a tag or the start of a commit's id that has a snapshot in the cache. */
export async function cachedCommit(id: string, revision: string): Promise<string | undefined> {
  const ref = await readFile(join(repoFolder(id), 'refs', revision), 'utf8').catch(() => undefined);
  const commit = ref?.trim() ?? (await commitStartingWith(id, revision));
  const isThere = commit && isCommit(commit) && (await isFolder(snapshotPath(id, commit)));
  return isThere ? commit : undefined;
}

async function commitStartingWith(id: string, start: string): Promise<string | undefined> {
  if (!/^[0-9a-f]{7,40}$/.test(start)) return undefined;
  const matches = (await cachedCommits(id)).filter((commit) => commit.startsWith(start));
  return matches.length === 1 ? matches[0] : undefined;
}

/** The commits that have a snapshot. */
export async function cachedCommits(id: string): Promise<string[]> {
  const names = await readdir(join(repoFolder(id), 'snapshots')).catch(() => []);
  return names.filter(isCommit).sort();
}

/** Commits that were begun to be fetched and have no snapshot, the newest first. */
export async function unfinishedCommits(id: string): Promise<string[]> {
  const names = await readdir(join(repoFolder(id), 'trees')).catch(() => []);
  const listed = names.map((name) => name.replace(/\.json$/, '')).filter(isCommit);
  const finished = await cachedCommits(id);
  const begun = listed.filter((commit) => !finished.includes(commit));
  const dated = await Promise.all(
    begun.map(async (commit) => ({ commit, time: (await stat(listingPath(id, commit))).mtimeMs })),
  );
  return dated.sort((a, b) => b.time - a.time).map(({ commit }) => commit);
}

/** Branches and tags in the cache → their commits. */
export async function cachedRefs(id: string): Promise<Map<string, string>> {
  const folder = join(repoFolder(id), 'refs');
  const names = await filesBelow(folder);
  const read = async (name: string) => (await readFile(join(folder, name), 'utf8')).trim();
  return new Map(await Promise.all(names.map(async (name) => [name, await read(name)] as const)));
}

/** Makes what Python's `hf cache` takes for the folder of a model, without a file yet. */
export function makeRepoFolder(id: string): void {
  for (const name of SUBFOLDERS) makeFolder(join(repoFolder(id), name));
}

/** Removes those folders of a model that are empty. */
export async function removeEmptyFolders(id: string): Promise<void> {
  for (const name of [...SUBFOLDERS, '.']) {
    await rmdir(join(repoFolder(id), name)).catch(() => undefined);
  }
}

/**
 * Makes the snapshot of files whose blobs are all there. The folder appears at once, with all of
 * them; into a folder that another tool has made, those that it lacks are put.
 *
 * @returns the snapshot's folder
 */
export async function placeSnapshot(
  id: string,
  commit: string,
  files: RepoFile[],
): Promise<string> {
  const final = snapshotPath(id, commit);
  const making = join(repoFolder(id), `.making-${randomUUID()}`);
  try {
    await linkFiles(id, making, files);
    makeFolder(dirname(final));
    await rename(making, final).catch(() => linkFiles(id, final, files));
  } finally {
    await rm(making, { recursive: true, force: true });
  }
  return final;
}

async function linkFiles(id: string, snapshot: string, files: RepoFile[]): Promise<void> {
  const own = new Set<string>();
  for (const file of files) {
    const path = join(snapshot, file.path);
    const there = await lstat(path).catch(() => undefined);
    if (there && own.has(identity(there))) {
      throw new HubError(
        `${file.path} of ${id} can't be placed: this file system takes another file's name for the same.`,
      );
    }
    if ((await fileSize(path)) !== file.size) {
      makeFolder(dirname(path));
      await rm(path, { force: true });
      await linkOrCopy(id, file, path);
    }
    own.add(identity(await lstat(path)));
  }
}

function identity({ dev, ino }: { dev: number; ino: number }): string {
  return `${dev}:${ino}`;
}

async function linkOrCopy(id: string, file: RepoFile, path: string): Promise<void> {
  // Relative, so that the cache can be moved; counted from where the snapshot will lie.
  const up = '../'.repeat(file.path.split('/').length + 1);
  try {
    await symlink(`${up}blobs/${contentId(file)}`, path, 'file');
  } catch {
    // Never onto what is there: through a link it would be another blob.
    await copyFile(blobPath(id, file), path, constants.COPYFILE_EXCL);
  }
}

/** Notes which commit a branch or tag stands for, once its snapshot is there. */
export async function writeRef(id: string, revision: string, commit: string): Promise<void> {
  if (isCommit(revision)) return;
  const path = join(repoFolder(id), 'refs', revision);
  const noted = await readFile(path, 'utf8').catch(() => undefined);
  if (noted !== commit) await writeWholeFile(path, commit);
}
