/** A built command line as a child process. */
import { spawn, spawnSync, type ChildProcess, type StdioOptions } from 'node:child_process';
import { fileURLToPath } from 'node:url';

export interface CliResult {
  code: number | null;
  out: string;
  err: string;
}

export interface CliOptions {
  cwd: string;
  env?: Readonly<Record<string, string>>;
  input?: string | Uint8Array;
}

export interface Cli {
  runCli: (args: readonly string[], options: CliOptions) => CliResult;
  /** Starts it for a test that does something meanwhile. */
  startCli: (
    args: readonly string[],
    options: Omit<CliOptions, 'input'> & { stdio?: StdioOptions },
  ) => { child: ChildProcess; ended: Promise<CliResult> };
}

// Started by Nx, the command line would take paths from the folder that Nx was started in.
const environment = { ...process.env, NX_TASK_TARGET_PROJECT: undefined };

/** @param script the command line's file: `new URL('../dist/cli.js', import.meta.url)` */
export function cliOf(script: URL): Cli {
  const cli = fileURLToPath(script);
  return {
    runCli(args, { cwd, env = {}, input = '' }) {
      const { status, stdout, stderr } = spawnSync(process.execPath, [cli, ...args], {
        encoding: 'utf8',
        env: { ...environment, ...env },
        cwd,
        input,
      });
      return { code: status, out: stdout, err: stderr };
    },
    startCli(args, { cwd, env = {}, stdio = 'pipe' }) {
      const child = spawn(process.execPath, [cli, ...args], {
        env: { ...environment, ...env },
        cwd,
        stdio,
      });
      const result: CliResult = { code: null, out: '', err: '' };
      child.stdout?.setEncoding('utf8').on('data', (text: string) => (result.out += text));
      child.stderr?.setEncoding('utf8').on('data', (text: string) => (result.err += text));
      const ended = new Promise<CliResult>((resolve) =>
        child.on('close', (code) => resolve({ ...result, code })),
      );
      return { child, ended };
    },
  };
}
