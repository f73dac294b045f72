import { spawnSync } from 'node:child_process';
import { ToolError } from '../../../packages/mlx-core/scripts/tool-error.mjs';

/**
 * Runs npm and gives what it prints.
 *
 * @param {string[]} args
 * @param {{ cwd: string }} options
 */
export function npm(args, { cwd }) {
  const { npm_execpath: cli } = process.env;
  // Started by npm itself, its own program is known; by another one's (pnpm's, yarn's) name it would be found too.
  const [program, ...before] = cli?.endsWith('npm-cli.js') ? [process.execPath, cli] : ['npm'];
  const { status, stdout, stderr, error } = spawnSync(program, [...before, ...args], {
    cwd,
    encoding: 'utf8',
    maxBuffer: 2 ** 26,
  });
  if (status === 0) return stdout;
  throw new ToolError(`npm ${args.join(' ')} failed:\n${error?.message ?? stderr.trim()}`);
}
