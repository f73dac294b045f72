/** fetch-program.ts as a process: Node 20 runs no TypeScript, so it is bundled first. */
import type { DownloadProgress } from '@mlx-runners/hub';
import { spawn, type ChildProcess } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { build } from 'vite';

export interface FetchProgram {
  start(id: string): FetchProcess;
  remove(): Promise<void>;
}

export async function bundleFetchProgram(): Promise<FetchProgram> {
  const folder = await mkdtemp(join(tmpdir(), 'fetch-program-'));
  await build({
    configFile: false,
    root: import.meta.dirname,
    logLevel: 'error',
    // Sources of the workspace's packages, as in vitest.base.mjs, and not what was built last.
    ssr: {
      noExternal: true,
      resolve: { conditions: ['@mlx-runners/source', 'node', 'import', 'default'] },
    },
    build: {
      ssr: join(import.meta.dirname, 'fetch-program.ts'),
      outDir: folder,
      rolldownOptions: { output: { entryFileNames: 'fetch.js' } },
      target: 'es2022',
    },
  });
  await writeFile(join(folder, 'package.json'), '{"type":"module"}');
  return {
    start: (id) => new FetchProcess(spawn(process.execPath, [join(folder, 'fetch.js'), id])),
    remove: () => rm(folder, { recursive: true }),
  };
}

export class FetchProcess {
  readonly events: DownloadProgress[] = [];
  path: string | undefined;
  stderr = '';
  /** The exit code, or the signal that ended it. */
  readonly ended: Promise<number | string | null>;
  readonly #child: ChildProcess;
  readonly #watchers = new Set<() => void>();

  constructor(child: ChildProcess) {
    this.#child = child;
    child.stderr!.setEncoding('utf8').on('data', (text: string) => (this.stderr += text));
    createInterface(child.stdout!).on('line', (line) => {
      const event = JSON.parse(line) as DownloadProgress | { path: string };
      if ('path' in event) this.path = event.path;
      else this.events.push(event);
      for (const watcher of this.#watchers) watcher();
    });
    this.ended = new Promise((resolve) =>
      child.on('close', (code, signal) => resolve(code ?? signal)),
    );
  }

  kill(signal: NodeJS.Signals): Promise<number | string | null> {
    this.#child.kill(signal);
    return this.ended;
  }

  /** Resolves when a report fits; rejects when the process ends before. */
  async reports(fits: (event: DownloadProgress) => boolean): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      const check = () => {
        if (this.events.some(fits)) resolve();
      };
      this.#watchers.add(check);
      check();
      void this.ended.then(() => reject(new Error(`It ended too early. ${this.stderr}`)));
    });
  }
}
