/**
 * The Hugging Face cache, in the layout of Python's huggingface_hub:
 * `models--org--name/{blobs/<oid>, refs/<revision>, snapshots/<commit>/<file>}`, where the files of
 * a snapshot are relative links to blobs.
 */

import { randomUUID } from 'node:crypto';
import { copyFile, mkdir, readdir, readFile, rename, rm, symlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { huggingFaceCache } from './environment.js';
import { fileSize, isFolder, writeWhole } from './paths.js';
import type { RepoFile } from './repo-files.js';

/** Folder name of a model repository; file names can't hold the slash of its id. */
export function repoFolderName(id: string): string {
  return `models--${id.replaceAll('/', '--')}`;
}

function repoFolder(id: string): string {
  return join(huggingFaceCache(), repoFolderName(id));
}

export function blobPath(id: string, { oid }: RepoFile): string {
  return join(repoFolder(id), 'blobs', oid);
}

export function snapshotPath(id: string, commit: string): string {
  return join(repoFolder(id), 'snapshots', commit);
}

export function isCommit(revision: string): boolean {
  return /^[0-9a-f]{40}$/.test(revision);
}

/** The commit of a branch, a tag or the start of a commit's id that has a snapshot in the cache. */
export async function cachedCommit(id: string, revision: string): Promise<string | undefined> {
  const ref = await readFile(join(repoFolder(id), 'refs', revision), 'utf8').catch(() => undefined);
  const commit = ref?.trim() ?? (await commitStartingWith(id, revision));
  return commit && (await isFolder(snapshotPath(id, commit))) ? commit : undefined;
}

async function commitStartingWith(id: string, start: string): Promise<string | undefined> {
  if (!/^[0-9a-f]{7,40}$/.test(start)) return undefined;
  const commits = await readdir(join(repoFolder(id), 'snapshots')).catch(() => []);
  const matches = commits.filter((commit) => isCommit(commit) && commit.startsWith(start));
  return matches.length === 1 ? matches[0] : undefined;
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
    await mkdir(dirname(final), { recursive: true });
    await rename(making, final).catch(() => linkFiles(id, final, files));
  } finally {
    await rm(making, { recursive: true, force: true });
  }
  return final;
}

async function linkFiles(id: string, snapshot: string, files: RepoFile[]): Promise<void> {
  for (const file of files) {
    const path = join(snapshot, file.path);
    if ((await fileSize(path)) === file.size) continue;
    await mkdir(dirname(path), { recursive: true });
    await rm(path, { force: true });
    await linkOrCopy(id, file, path);
  }
}

async function linkOrCopy(id: string, file: RepoFile, path: string): Promise<void> {
  // Relative, so that the cache can be moved; counted from where the snapshot will lie.
  const up = '../'.repeat(file.path.split('/').length + 1);
  try {
    await symlink(`${up}blobs/${file.oid}`, path, 'file');
  } catch {
    await copyFile(blobPath(id, file), path);
  }
}

/** Notes which commit a branch or tag stands for, once its snapshot is there. */
export async function writeRef(id: string, revision: string, commit: string): Promise<void> {
  const refs = join(repoFolder(id), 'refs');
  await mkdir(refs, { recursive: true });
  if (!isCommit(revision)) await writeWhole(join(refs, revision), commit);
}
