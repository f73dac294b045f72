/** Single files out of wheels and npm tarballs. Nothing else of an archive is ever written. */

import { AbortedError, HubError } from '@mlx-runners/mlx-core/errors';
import { Unzip, UnzipInflate } from 'fflate';
import { spawn } from 'node:child_process';
import { createReadStream, createWriteStream, closeSync, openSync, writeSync } from 'node:fs';
import { pipeline } from 'node:stream/promises';

interface ExtractOptions {
  signal?: AbortSignal | undefined;
  /** Called with the number of bytes that were written since the last call. */
  onBytes: (count: number) => void;
}

/**
 * Writes entries of a wheel (zip) or npm tarball to files, in little memory whatever their size.
 *
 * @param entries path in the archive → path of the file to be written
 * @throws HubError when the archive is broken or lacks an entry, AbortedError, system errors of writing
 */
export async function extractEntries(
  archive: string,
  entries: ReadonlyMap<string, string>,
  options: ExtractOptions,
): Promise<void> {
  await (archive.endsWith('.whl') ? unzipEntries : untarEntries)(archive, entries, options);
}

async function unzipEntries(
  archive: string,
  entries: ReadonlyMap<string, string>,
  { signal, onBytes }: ExtractOptions,
): Promise<void> {
  const missing = new Set(entries.keys());
  const opened: number[] = [];
  const unzip = new Unzip((file) => {
    const destination = entries.get(file.name);
    if (destination === undefined) return;
    missing.delete(file.name);
    const fd = openSync(destination, 'w');
    opened.push(fd);
    file.ondata = (error, data) => {
      if (error) throw error;
      for (let done = 0; done < data.length;) done += writeSync(fd, data, done);
      onBytes(data.length);
    };
    file.start();
  });
  unzip.register(UnzipInflate);
  try {
    for await (const chunk of createReadStream(archive, { signal, highWaterMark: 1 << 20 })) {
      unzip.push(chunk as Uint8Array);
    }
    unzip.push(new Uint8Array(0), true);
  } catch (error) {
    throw unpackingError(archive, error, signal);
  } finally {
    for (const fd of opened) closeSync(fd);
  }
  if (missing.size > 0) throw lacks(archive, [...missing]);
}

/** Every system that runs here has a `tar`, GNU's or BSD's, and both write an entry to stdout. */
async function untarEntries(
  archive: string,
  entries: ReadonlyMap<string, string>,
  { signal, onBytes }: ExtractOptions,
): Promise<void> {
  for (const [entry, destination] of entries) {
    const child = spawn('tar', ['-xzOf', archive, '--', entry], {
      signal,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const ended = new Promise<number | null>((resolve, reject) => {
      child.on('error', reject).on('close', resolve);
    });
    async function* counted(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
      for await (const chunk of chunks) {
        onBytes(chunk.length);
        yield chunk;
      }
    }
    let stderr = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
    try {
      await pipeline(child.stdout, counted, createWriteStream(destination));
      if ((await ended) !== 0) throw new Error(stderr.trim());
    } catch (error) {
      throw unpackingError(archive, error, signal);
    }
  }
}

function unpackingError(archive: string, error: unknown, signal: AbortSignal | undefined): Error {
  if (signal?.aborted) return new AbortedError(undefined, { cause: error });
  // What the disk refuses is no fault of the archive.
  const { syscall } = error as NodeJS.ErrnoException;
  if (syscall === 'write' || syscall === 'open') return error as Error;
  return new HubError(`Can't unpack ${archive}: ${(error as Error).message}.`, { cause: error });
}

function lacks(archive: string, entries: string[]): HubError {
  return new HubError(`${archive} has no ${entries.join(', ')}.`);
}
