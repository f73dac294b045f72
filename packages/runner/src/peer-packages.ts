/** Packages of a bench's peers, installed into folders of their own when their list is new. */
import { execFile } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { writeWholeFile } from '@mlx-runners/mlx-core/whole-file';
import { interruptSignal } from './interruption.js';

const execute = promisify(execFile);

/**
 * Why no peer can be run here, if so.
 *
 * @param folder their programs, which published packages lack
 */
export function whyNoPeers(folder: string): string | undefined {
  if (!existsSync(folder)) return 'the peers belong to the workspace of mlx-runners';
  if (process.platform !== 'linux') return 'the peers are compared on Linux, on the CPU';
  return undefined;
}

/**
 * The Python in `folder` that has the packages of a requirements file.
 *
 * @throws Error where they can't be installed, with the end of what pip says
 */
export async function pythonWith(
  requirements: string,
  folder: string,
  log: (line: string) => void,
): Promise<string> {
  const python = join(folder, 'bin', 'python');
  const list = readFileSync(requirements, 'utf8');
  await installOnce(folder, list, log, async () => {
    const needs = 'Python 3.11 or newer with venv and pip';
    await mkdir(dirname(folder), { recursive: true });
    await installStep(needs, 'python3', ['-m', 'venv', '--clear', folder]);
    const pip = ['-m', 'pip', 'install', '--no-deps', '--only-binary', ':all:'];
    const quiet = ['--quiet', '--disable-pip-version-check', '--no-input'];
    await installStep(needs, python, [...pip, ...quiet, '--requirement', requirements]);
  });
  return python;
}

/**
 * Installs packages of npm, given as `name@version`, so that programs in `folder` can import them. Nothing of
 * them is run, and optional dependencies are left out.
 *
 * @throws Error where they can't be installed, with the end of what npm says
 */
export async function nodeModulesWith(
  packages: readonly string[],
  folder: string,
  log: (line: string) => void,
): Promise<void> {
  await installOnce(folder, `${packages.join('\n')}\n`, log, async () => {
    await rm(folder, { recursive: true, force: true });
    await mkdir(folder, { recursive: true });
    // Keeps npm from looking for a package.json further up.
    await writeWholeFile(join(folder, 'package.json'), '{ "private": true }\n');
    const npm = ['install', '--prefix', folder, '--no-save', '--ignore-scripts'];
    const quiet = ['--omit=optional', '--no-audit', '--no-fund'];
    await installStep('npm', 'npm', [...npm, ...quiet, ...packages]);
  });
}

async function installOnce(
  folder: string,
  wanted: string,
  log: (line: string) => void,
  install: () => Promise<void>,
): Promise<void> {
  // Written last: without it, what is there is half an installation.
  const installed = join(folder, 'installed.txt');
  if (existsSync(installed) && readFileSync(installed, 'utf8') === wanted) return;
  log(`installing the peers into ${folder}`);
  await install();
  await writeWholeFile(installed, wanted);
}

async function installStep(needs: string, program: string, args: string[]): Promise<void> {
  try {
    await execute(program, args, { signal: interruptSignal() });
  } catch (error) {
    const { stderr, stdout, message } = error as Error & { stderr?: string; stdout?: string };
    const said = (stderr || stdout || message).trim().slice(-500);
    throw new Error(`The peers can't be installed (${needs} is needed): ${said}`, {
      cause: error,
    });
  }
}
