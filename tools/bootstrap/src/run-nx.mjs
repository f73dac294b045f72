import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { workspaceRoot } from './workspace.mjs';

/** How long a quiet run may take before it says that it is at work. */
const PATIENCE_MS = 5000;

/**
 * Runs Nx without its background process, which would outlive the command.
 *
 * @param {string[]} args
 * @param {{ output: 'shown' | 'stderr' | 'on failure', env?: Record<string, string> }} options where its output goes:
 *   as it comes to stdout and stderr, or all to stderr, or there only when it fails
 * @returns {Promise<number>} the exit code
 */
export async function runNx(args, { output, env = {} }) {
  const folder = join(workspaceRoot, 'node_modules/nx');
  const { bin } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  const nx = spawn(process.execPath, [join(folder, bin.nx), ...args], {
    cwd: workspaceRoot,
    stdio: output === 'on failure' ? ['ignore', 'pipe', 'pipe'] : ['ignore', STDOUT[output], 2],
    env: { ...process.env, NX_DAEMON: 'false', NX_TUI: 'false', ...env },
  });
  /** @type {Buffer[]} */
  const kept = [];
  nx.stdout?.on('data', (chunk) => kept.push(chunk));
  nx.stderr?.on('data', (chunk) => kept.push(chunk));
  const timer = setTimeout(() => {
    if (output === 'on failure') console.error('Building …');
  }, PATIENCE_MS);
  /** @type {number} */
  const code = await new Promise((resolve, reject) => {
    nx.on('error', reject).on('close', (status) => resolve(status ?? 1));
  });
  clearTimeout(timer);
  if (code !== 0) process.stderr.write(Buffer.concat(kept));
  return code;
}

const STDOUT = { shown: 1, stderr: 2 };
