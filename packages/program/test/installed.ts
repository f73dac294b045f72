/**
 * mlx-core and program as they would be installed, for programs in processes of their own. Made from the
 * sources, so that no build stands between an edit and its test.
 */
import { execFile } from 'node:child_process';
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import ts from 'typescript';

const packagesRoot = join(import.meta.dirname, '../..');

export interface InstalledPackages {
  folder: string;
  /** Runs the text of a module and gives what it printed. Rejects when it fails. */
  run(program: string): Promise<string>;
  remove(): void;
}

export function installedPackages(): InstalledPackages {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'mlx-installed-')));
  const modules = join(folder, 'node_modules');
  for (const name of ['mlx-core', 'program']) install(name, join(modules, '@mlx-runners', name));
  symlinkSync(join(packagesRoot, '../node_modules/zod'), join(modules, 'zod'));
  const native = process.env.MLX_RUNNERS_NATIVE ?? join(packagesRoot, 'mlx-core/build/native');
  let programs = 0;
  return {
    folder,
    async run(program) {
      const path = join(folder, `program-${(programs += 1)}.mjs`);
      writeFileSync(path, program);
      const env = { ...process.env, NODE_OPTIONS: '', MLX_RUNNERS_NATIVE: native };
      const settings = { env, timeout: 50_000, killSignal: 'SIGKILL' } as const;
      return (await promisify(execFile)(process.execPath, [path], settings)).stdout;
    },
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}

function install(name: string, target: string): void {
  const source = join(packagesRoot, name);
  mkdirSync(target, { recursive: true });
  cpSync(join(source, 'package.json'), join(target, 'package.json'));
  for (const file of readdirSync(join(source, 'src'), { recursive: true, encoding: 'utf8' })) {
    if (!file.endsWith('.ts')) continue;
    const path = join(target, 'dist', file.replace(/\.ts$/, '.js'));
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, compiled(join(source, 'src', file)));
  }
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
