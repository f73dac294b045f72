import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { workspaceRoot } from './workspace.mjs';

const lockFile = join(workspaceRoot, 'package-lock.json');
/** npm writes this last, so that an install broken off lacks it. */
const npmRecord = join(workspaceRoot, 'node_modules/.package-lock.json');
/** Which lock file node_modules was installed from. */
const stampFile = join(workspaceRoot, 'node_modules/.mlx-runners-lock');

/** Installs the npm packages of the lock file unless they are there already. Progress goes to stderr. */
export function installPackages() {
  if (isInstalled()) return true;
  console.error('Installing npm packages …');
  const args = ['ci', '--include=dev', '--no-audit', '--no-fund'];
  const { npm_execpath: npmCli } = process.env;
  const [program, ...before] = npmCli ? [process.execPath, npmCli] : ['npm'];
  const { status, error } = spawnSync(program, [...before, ...args], {
    cwd: workspaceRoot,
    stdio: ['ignore', 2, 2],
  });
  if (status === 0) {
    writeFileSync(stampFile, lockHash());
    return true;
  }
  console.error(`npm ci failed${error ? `: ${error.message}` : ''}.`);
  return false;
}

function isInstalled() {
  if (!existsSync(npmRecord)) return false;
  const sameLock = existsSync(stampFile) && readFileSync(stampFile, 'utf8') === lockHash();
  // Installed by hand since the lock file changed.
  return sameLock || statSync(npmRecord).mtimeMs >= statSync(lockFile).mtimeMs;
}

function lockHash() {
  return createHash('sha256').update(readFileSync(lockFile)).digest('hex');
}
