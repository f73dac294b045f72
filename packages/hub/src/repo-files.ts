/** Which files a repository has at a commit, which of them are wanted, and which are there. */

import { HubError } from '@mlx-runners/mlx-core/errors';
import { readdir, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { mlxRunnersCache } from './environment.js';
import { fileSize, writeWhole } from './paths.js';

export interface RepoFile {
  path: string;
  size: number;
  /** Name of its blob: the sha256 of a large (LFS) file, the git blob sha1 of a small one. */
  oid: string;
}

/**
 * The files that match one of the names or patterns; all files without patterns. As in
 * huggingface_hub, `*` also matches `/`.
 *
 * @throws HubError when a plain name is not among the files
 */
export function selectFiles(files: RepoFile[], patterns: string[] | undefined): RepoFile[] {
  if (!patterns) return files;
  for (const name of patterns.filter((pattern) => !isPattern(pattern))) {
    if (!files.some(({ path }) => path === name)) {
      const paths = files.map(({ path }) => path).join(', ');
      throw new HubError(`The repository has no file "${name}"; it has ${paths}.`);
    }
  }
  const regexes = patterns.map(patternRegex);
  return files.filter(({ path }) => regexes.some((regex) => regex.test(path)));
}

function isPattern(pattern: string): boolean {
  return /[*?]/.test(pattern);
}

function patternRegex(pattern: string): RegExp {
  const source = pattern
    .replace(/[.+^${}()|[\]\\]/g, '\\$&')
    .replaceAll('*', '.*')
    .replaceAll('?', '.');
  return new RegExp(`^${source}$`, 's');
}

/**
 * Names of wanted files that a snapshot folder lacks. A cache does not say whether a snapshot is
 * whole (Python makes one for a single file), so the repository's list of files is kept from the
 * last time that it was read; where there is none, the folder itself tells what it can.
 */
export async function missingFiles(
  snapshot: string,
  commit: string,
  repoFolderName: string,
  patterns: string[] | undefined,
): Promise<string[]> {
  const listed = await readListing(repoFolderName, commit);
  if (!listed) return missingByFolder(snapshot, patterns);
  const missing = await Promise.all(
    selectFiles(listed, patterns).map(async ({ path, size }) =>
      (await fileSize(join(snapshot, path))) === size ? [] : [path],
    ),
  );
  return missing.flat();
}

const WEIGHTS = /\.(safetensors|gguf|npz|bin|pt|pth|nemo|onnx)$/;

async function missingByFolder(snapshot: string, patterns = ['*']): Promise<string[]> {
  const found = await filesBelow(snapshot);
  const names = patterns.filter((pattern) => !isPattern(pattern));
  const indexes = found.filter((path) => path.endsWith('.safetensors.index.json'));
  const shards = await Promise.all(indexes.map((index) => shardsOf(snapshot, index)));
  const wanted = [...new Set([...names, ...shards.flat()])];
  const sizes = await Promise.all(
    // A link whose blob is gone is listed as a file.
    [...new Set([...found, ...wanted])].map(async (path) =>
      (await fileSize(join(snapshot, path))) === undefined ? [path] : [],
    ),
  );
  const missing = sizes.flat();
  if (missing.length === 0 && !found.some((path) => WEIGHTS.test(path))) return ['any weights'];
  return missing;
}

async function filesBelow(folder: string, prefix = ''): Promise<string[]> {
  const files: string[] = [];
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = prefix + entry.name;
    if (!entry.isDirectory()) files.push(path);
    else files.push(...(await filesBelow(join(folder, entry.name), `${path}/`)));
  }
  return files;
}

async function shardsOf(snapshot: string, index: string): Promise<string[]> {
  try {
    const { weight_map: shards } = JSON.parse(await readFile(join(snapshot, index), 'utf8')) as {
      weight_map: Record<string, string>;
    };
    const folder = dirname(index);
    return Object.values(shards).map((shard) => (folder === '.' ? shard : `${folder}/${shard}`));
  } catch {
    return [index];
  }
}

/** A commit never changes, so neither does its list of files. */
function listingPath(repoFolderName: string, commit: string): string {
  return join(mlxRunnersCache(), 'listings', repoFolderName, `${commit}.json`);
}

async function readListing(
  repoFolderName: string,
  commit: string,
): Promise<RepoFile[] | undefined> {
  try {
    const text = await readFile(listingPath(repoFolderName, commit), 'utf8');
    return (JSON.parse(text) as { files: RepoFile[] }).files;
  } catch {
    return undefined;
  }
}

export async function writeListing(
  repoFolderName: string,
  commit: string,
  files: RepoFile[],
): Promise<void> {
  await writeWhole(listingPath(repoFolderName, commit), JSON.stringify({ files }, null, 2));
}
