/**
 * A repository's list of files at a commit, kept in the cache: `trees/<commit>.json`, in the format
 * of Python's huggingface_hub. A commit never changes, so neither does its list.
 */

import { writeWholeFile } from '@mlx-runners/mlx-core/whole-file';
import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import { isRepoFile, type RepoFile } from './repo-files.js';
import { listingPath } from './snapshot-cache.js';

const FORMAT_VERSION = 1;

const treeFile = z.object({
  format_version: z.literal(FORMAT_VERSION),
  files: z.record(
    z.string(),
    z.object({
      size: z.int().nonnegative(),
      blob_id: z.string(),
      lfs_sha256: z.string().nullish(),
      lfs_size: z.int().nonnegative().nullish(),
      xet_hash: z.string().nullish(),
    }),
  ),
});

/** Undefined when there is none that can be used. */
export async function readListing(id: string, commit: string): Promise<RepoFile[] | undefined> {
  try {
    const { files } = treeFile.parse(JSON.parse(await readFile(listingPath(id, commit), 'utf8')));
    const listed = Object.entries(files).map(([path, entry]) => ({
      path,
      size: entry.lfs_size ?? entry.size,
      gitOid: entry.blob_id,
      sha256: entry.lfs_sha256 ?? undefined,
      xetHash: entry.xet_hash ?? undefined,
    }));
    return listed.every(isRepoFile) ? listed : undefined;
  } catch {
    return undefined;
  }
}

export async function writeListing(id: string, commit: string, listed: RepoFile[]): Promise<void> {
  const files = Object.fromEntries(
    listed.map(({ path, size, gitOid, sha256, xetHash }) => [
      path,
      {
        size,
        blob_id: gitOid,
        ...(sha256 !== undefined && { lfs_sha256: sha256, lfs_size: size }),
        ...(xetHash !== undefined && { xet_hash: xetHash }),
      },
    ]),
  );
  const content = JSON.stringify({ format_version: FORMAT_VERSION, files }, null, 1);
  await writeWholeFile(listingPath(id, commit), content);
}
