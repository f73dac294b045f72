/**
 * The package as JavaScript, for programs of their own: Node 20 runs no TypeScript. Made from the
 * sources, so that no build stands between an edit and its test.
 */
import { spawn } from 'node:child_process';
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import ts from 'typescript';

const packageRoot = join(import.meta.dirname, '..');
export const nativeFolder = process.env.MLX_RUNNERS_NATIVE ?? join(packageRoot, 'build', 'native');

export interface Outcome {
  code: number | null;
  signal: string | null;
  stdout: string;
  stderr: string;
}

export interface RunOptions {
  nodeArgs?: string[];
  native?: string | null;
  /** What a shell does before it becomes the program, such as setting a limit. */
  shell?: string;
}

export interface PlainPackage {
  folder: string;
  /** Runs the text of a module, in which `mlx-core` is this package, and waits for its end. */
  run(program: string, options?: RunOptions): Promise<Outcome>;
  remove(): void;
}

function compiled(path: string): string {
  const { outputText } = ts.transpileModule(readFileSync(path, 'utf8'), {
    compilerOptions: {
      module: ts.ModuleKind.ESNext,
      target: ts.ScriptTarget.ES2022,
      verbatimModuleSyntax: true,
    },
  });
  return outputText;
}

export function plainPackage(): PlainPackage {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'mlx-core-')));
  mkdirSync(join(folder, 'dist'));
  const manifest = { name: 'mlx-core', type: 'module', exports: './dist/index.js' };
  writeFileSync(join(folder, 'package.json'), JSON.stringify(manifest));
  for (const file of readdirSync(join(packageRoot, 'src'))) {
    const path = join(folder, 'dist', file.replace(/\.ts$/, '.js'));
    writeFileSync(path, compiled(join(packageRoot, 'src', file)));
  }
  let programs = 0;
  return {
    folder,
    run(program, { nodeArgs = [], native = nativeFolder, shell } = {}) {
      const path = join(folder, `program-${(programs += 1)}.mjs`);
      writeFileSync(path, program);
      const command = [process.execPath, ...nodeArgs, path];
      return outcomeOf(
        shell ? ['/bin/sh', '-c', `${shell} && exec "$@"`, 'sh', ...command] : command,
        native,
      );
    },
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}

function outcomeOf([command, ...args]: string[], native: string | null): Promise<Outcome> {
  const env = {
    ...process.env,
    NODE_OPTIONS: undefined,
    MLX_RUNNERS_NATIVE: native ?? undefined,
  };
  // A program that hangs is ended, and the signal shows it.
  const child = spawn(command, args, { env, timeout: 50_000, killSignal: 'SIGKILL' });
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code, signal) => resolve({ code, signal, stdout, stderr }));
  });
}
