import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { workspaceRoot } from './workspace.mjs';

/**
 * Runs Nx without its background process, which would outlive the command.
 *
 * @param {string[]} args
 * @param {{ stdout: 1 | 2, env?: Record<string, string> }} options `stdout`: the file descriptor that its output goes to
 * @returns {number} the exit code
 */
export function runNx(args, { stdout, env = {} }) {
  const folder = join(workspaceRoot, 'node_modules/nx');
  const { bin } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  const { status } = spawnSync(process.execPath, [join(folder, bin.nx), ...args], {
    cwd: workspaceRoot,
    stdio: ['ignore', stdout, 2],
    env: { ...process.env, NX_DAEMON: 'false', NX_TUI: 'false', ...env },
  });
  return status ?? 1;
}
