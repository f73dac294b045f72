/** Which files a repository has at a commit, which of them are wanted, and which are there. */

import { HubError } from '@mlx-runners/mlx-core/errors';
import { readdir, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileSize, filesBelow, isRelativeFile } from './paths.js';

export interface RepoFile {
  path: string;
  /** Of the content, in bytes. */
  size: number;
  /** The git blob id: of the content, or of the pointer that git has in the place of a large file. */
  gitOid: string;
  /** Of the content of a large (LFS) file. */
  sha256?: string | undefined;
  /** By which Python fetches it from Xet storage; kept for it. */
  xetHash?: string | undefined;
}

/** What names the content: the sha256 of a large file, the git blob id of a small one. */
export function contentId({ gitOid, sha256 }: RepoFile): string {
  return sha256 ?? gitOid;
}

/** Whether names and ids are such that they can become paths. */
export function isRepoFile({ path, gitOid, sha256 }: RepoFile): boolean {
  const hasIds = /^[0-9a-f]{40}$/.test(gitOid) && /^[0-9a-f]{64}$/.test(sha256 ?? '0'.repeat(64));
  return isRelativeFile(path) && hasIds;
}

/**
 * The files that match one of the names or patterns; all files without patterns. As in
 * huggingface_hub, `*` also matches `/`.
 *
 * @throws HubError when a plain name is not among the files
 */
export function selectFiles(files: RepoFile[], patterns: string[] | undefined): RepoFile[] {
  const [absent] = absentNames(files, patterns);
  if (absent === undefined) return matchingFiles(files, patterns);
  const more = files.length > 50 ? `, … and ${files.length - 50} more` : '';
  const paths = files.slice(0, 50).map(({ path }) => path);
  throw new HubError(`The repository has no file "${absent}"; it has ${paths.join(', ')}${more}.`);
}

function matchingFiles(files: RepoFile[], patterns: string[] | undefined): RepoFile[] {
  if (!patterns) return files;
  // Names are looked up: with a pattern each, many names in a long listing would take minutes.
  const names = new Set(patterns.filter((pattern) => !isPattern(pattern)));
  const regexes = patterns.filter(isPattern).map(patternRegex);
  return files.filter(({ path }) => names.has(path) || regexes.some((regex) => regex.test(path)));
}

function absentNames(files: RepoFile[], patterns: string[] = []): string[] {
  const paths = new Set(files.map(({ path }) => path));
  return patterns.filter((pattern) => !isPattern(pattern) && !paths.has(pattern));
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
 * Names of wanted files that are not there. A cache does not say whether a snapshot is whole (Python
 * makes one for a single file): the repository's list of files does; where there is none, the folder
 * itself tells what it can.
 *
 * @param sizeOf the size of a file that is there
 */
export async function missingFiles(
  snapshot: string,
  listing: RepoFile[] | undefined,
  patterns: string[] | undefined,
  sizeOf = ({ path }: RepoFile) => fileSize(join(snapshot, path)),
): Promise<string[]> {
  if (!listing) return missingByFolder(snapshot, patterns);
  const missing = await Promise.all(
    matchingFiles(listing, patterns).map(async (file) =>
      (await sizeOf(file)) === file.size ? [] : [file.path],
    ),
  );
  return [...absentNames(listing, patterns), ...missing.flat()];
}

const WEIGHTS = /\.(safetensors|gguf|npz|bin|pt|pth|nemo|onnx)$/;

async function missingByFolder(snapshot: string, patterns = ['*']): Promise<string[]> {
  const found = await filesBelow(snapshot);
  const names = patterns.filter((pattern) => !isPattern(pattern));
  const indexes = found.filter((path) => path.endsWith('.safetensors.index.json'));
  const shards = await Promise.all(indexes.map((index) => shardsOf(snapshot, index)));
  const wanted = new Set([...found, ...names, ...shards.flat()]);
  const sizes = await Promise.all(
    // A link whose blob is gone is among the files found.
    [...wanted].map(async (path) =>
      (await fileSize(join(snapshot, path))) === undefined ? [path] : [],
    ),
  );
  const missing = sizes.flat();
  if (names.length === 0) missing.push(...(await begunBlobs(snapshot)));
  if (missing.length === 0 && !found.some((path) => WEIGHTS.test(path))) return ['any weights'];
  return missing;
}

/** Where nothing says which files there should be, a download that was broken off does. */
async function begunBlobs(snapshot: string): Promise<string[]> {
  const names = await readdir(join(snapshot, '../../blobs')).catch(() => []);
  return names.filter((name) => name.endsWith('.incomplete')).map((name) => `blobs/${name}`);
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
