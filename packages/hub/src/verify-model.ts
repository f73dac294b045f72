import { throwIfAborted } from '@mlx-runners/mlx-core/errors';
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { readlink } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { listModels, noSuchModel, type CachedModel, type ListOptions } from './cached-models.js';
import { readProvenance } from './mirror-cache.js';
import { fileSize, filesBelow } from './paths.js';
import { progressReporter, type TransferOptions } from './progress.js';
import { contentId } from './repo-files.js';
import { readListing } from './tree-listing.js';

export interface VerifiedModel extends CachedModel {
  /** Files whose content is not what it should be. */
  damaged: string[];
  /** Files of which it isn't known what they should hold. */
  unknown: string[];
}

/**
 * Reads all files of a model, or of all models in the caches, and holds them against their
 * checksums: the sha256 of large files and of mirrors, the git blob id of small ones.
 *
 * @param id as on the hub; all models without
 * @throws HubError when there is no such model, AbortedError
 */
export async function verifyModel(
  id?: string,
  { models, ...options }: Omit<ListOptions, 'id'> & TransferOptions = {},
): Promise<VerifiedModel[]> {
  const found = await listModels({ id, models });
  if (id !== undefined && found.length === 0) throw await noSuchModel(id, undefined);
  const report = progressReporter(
    found.reduce((sum, { bytes }) => sum + bytes, 0),
    options,
  );
  let before = 0;
  const verified: VerifiedModel[] = [];
  for (const model of found) {
    const result: VerifiedModel = { ...model, damaged: [], unknown: [] };
    for (const { file, expected } of await filesToCheck(model)) {
      const path = join(model.path, file);
      const size = await fileSize(path);
      // A link whose blob is gone is among the missing.
      if (size === undefined) continue;
      const onBytes = (bytes: number) => report(file, before + bytes);
      if (expected === undefined) result.unknown.push(file);
      else if (!(await hasContent(path, size, expected, onBytes, options.signal))) {
        result.damaged.push(file);
      }
      before += size;
    }
    verified.push(result);
  }
  return verified;
}

/** The files of a model, and the sha256 or git blob id that each should have. */
async function filesToCheck({
  id,
  source,
  revision,
  path,
}: CachedModel): Promise<{ file: string; expected: string | undefined }[]> {
  if (source === 'mirror') {
    const held = (await readProvenance(path))?.files ?? [];
    return held.map((file) => ({ file: file.path, expected: file.sha256 }));
  }
  if (revision === undefined) return [];
  const listing = (await readListing(id, revision)) ?? [];
  const listed = new Map(listing.map((file) => [file.path, contentId(file)]));
  const files = await filesBelow(path);
  return Promise.all(
    files.map(async (file) => ({
      file,
      expected: listed.get(file) ?? (await blobName(join(path, file))),
    })),
  );
}

/** Blobs have the name of what they hold. */
async function blobName(path: string): Promise<string | undefined> {
  const name = basename(await readlink(path).catch(() => ''));
  return /^([0-9a-f]{40}|[0-9a-f]{64})$/.test(name) ? name : undefined;
}

async function hasContent(
  path: string,
  size: number,
  expected: string,
  onBytes: (bytes: number) => void,
  signal: AbortSignal | undefined,
): Promise<boolean> {
  const hash =
    expected.length === 64 ? createHash('sha256') : createHash('sha1').update(`blob ${size}\0`);
  let bytes = 0;
  for await (const chunk of createReadStream(path, { highWaterMark: 1 << 20 })) {
    throwIfAborted(signal);
    hash.update(chunk as Uint8Array);
    onBytes((bytes += (chunk as Uint8Array).length));
  }
  return hash.digest('hex') === expected;
}
