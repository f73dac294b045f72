import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { ToolError } from './tool-error.mjs';
import { buildCache } from './wheels.mjs';

const PACKAGE = 'qemu-user-static';
const PROGRAM = 'qemu-aarch64-static';

/**
 * The program of qemu's user mode that runs programs of Linux on arm64: that on PATH, or else the one in Debian's
 * package, which is put into the build cache. Nothing is installed.
 */
export function qemuArm64() {
  const onPath = ['qemu-aarch64', PROGRAM].find(starts);
  if (onPath) return onPath;
  const program = join(buildCache, PACKAGE, PROGRAM);
  if (!existsSync(program)) fetchProgram(program);
  if (starts(program)) return program;
  throw new ToolError(`${program} does not start. Install qemu's user mode (qemu-aarch64).`);
}

function starts(/** @type {string} */ program) {
  return spawnSync(program, ['--version']).status === 0;
}

function fetchProgram(/** @type {string} */ program) {
  const folder = `${program}.part-${process.pid}`;
  mkdirSync(folder, { recursive: true });
  try {
    command('apt-get', ['download', PACKAGE], folder);
    const [file] = readdirSync(folder);
    command('dpkg-deb', ['--extract', file, '.'], folder);
    renameSync(join(folder, 'usr/bin', PROGRAM), program);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function command(
  /** @type {string} */ name,
  /** @type {string[]} */ args,
  /** @type {string} */ cwd,
) {
  const { status, error, stderr } = spawnSync(name, args, { cwd, encoding: 'utf8' });
  if (status === 0) return;
  throw new ToolError(
    'qemu-aarch64 is not on PATH: install qemu-user or qemu-user-static. ' +
      `(${name} ${args.join(' ')}: ${error?.message ?? stderr.trim()})`,
  );
}
