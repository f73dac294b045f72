import { spawn, type ChildProcess, type StdioOptions } from 'node:child_process';
import { cpSync, mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { build } from 'vite';

/** The fake runner as a program of its own: Node 20 runs no TypeScript, so it is bundled first. */
export interface BundledProgram {
  readonly folder: string;
  start(args: string[], options?: StartOptions): ChildProcess;
  run(args: string[], options?: StartOptions): Promise<Outcome>;
  remove(): void;
}

export interface StartOptions {
  readonly cwd?: string;
  readonly env?: Record<string, string>;
  readonly stdio?: StdioOptions;
}

export interface Outcome {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export async function bundleFakeRunner(): Promise<BundledProgram> {
  const source = join(import.meta.dirname, 'fake-runner');
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'fake-runner-')));
  cpSync(join(source, 'package.json'), join(folder, 'package.json'));
  await build({
    configFile: false,
    root: source,
    logLevel: 'error',
    // Sources of the workspace's packages, as in vitest.base.mjs, and not what was built last.
    ssr: {
      noExternal: true,
      resolve: { conditions: ['@mlx-runners/source', 'node', 'import', 'default'] },
    },
    build: {
      ssr: join(source, 'src/cli.ts'),
      outDir: join(folder, 'dist'),
      emptyOutDir: true,
      target: 'es2022',
    },
  });
  const start = (args: string[], { cwd = folder, env = {}, stdio = 'pipe' }: StartOptions = {}) =>
    spawn(process.execPath, [join(folder, 'dist/cli.js'), ...args], {
      cwd,
      env: { PATH: process.env.PATH, ...env },
      stdio,
    });
  return {
    folder,
    start,
    run: (args, options) => outcome(start(args, options)),
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}

export async function outcome(child: ChildProcess): Promise<Outcome> {
  let stdout = '';
  let stderr = '';
  child.stdout?.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stderr?.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  const code = await new Promise<number | null>((resolve) => child.on('close', resolve));
  return { code, stdout, stderr };
}
