/** The built command line as a child process. */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const cli = fileURLToPath(new URL('../dist/cli.js', import.meta.url));

export interface CliResult {
  code: number | null;
  out: string;
  err: string;
}

export function runCli(
  args: readonly string[],
  { cwd, env = {} }: { cwd: string; env?: Readonly<Record<string, string>> },
): CliResult {
  const { status, stdout, stderr } = spawnSync(process.execPath, [cli, ...args], {
    encoding: 'utf8',
    // Started by Nx, the command line would take paths from the folder that Nx was started in.
    env: { ...process.env, NX_TASK_TARGET_PROJECT: undefined, ...env },
    cwd,
  });
  return { code: status, out: stdout, err: stderr };
}
