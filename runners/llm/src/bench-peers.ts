/** The peers of the bench: how they are had and started. bench/README.md says what they are. */
import { rmSync } from 'node:fs';
import { mkdir, mkdtemp } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { convertCheckpoint } from '@mlx-runners/lm';
import {
  isPreloadedOpenblas,
  nodeModulesWith,
  onInterrupt,
  openblasPreload,
  pythonWith,
} from '@mlx-runners/runner';
import type { ContestantProgram } from './bench-contestants.js';

const runner = fileURLToPath(new URL('..', import.meta.url));
const workspace = join(runner, '..', '..');
export const peersFolder = join(runner, 'bench', 'peers');
/** The peers' packages, and weights while they are compared. */
const cache = join(workspace, '.cache', 'bench', 'llm');
/** Our OpenBLAS under the names that libmlx looks for. */
const native = join(workspace, 'packages', 'mlx-core', 'build', 'native');

const NODE_LLAMA_CPP_VERSION = '3.22.1';

/** Where the committed results of a model are. */
export function resultsFile(model: string): string {
  return join(runner, 'bench', 'results', `${model}.json`);
}

export interface PeerFiles {
  gguf: string;
  threads: number;
  /** Tokens that a sequence may have. */
  contextLength: number;
}

interface PeerDefinition {
  /** How many times better we have to be, with the first standard model. */
  goals: { decode: number; prefill?: number };
  /** `temporary`: a folder for files that are removed after the comparison. */
  prepare(
    files: PeerFiles & { temporary: string },
    log: (line: string) => void,
  ): Promise<ContestantProgram>;
}

export const PEERS = {
  'node-llama-cpp': {
    goals: { decode: 1.5, prefill: 0.8 },
    async prepare({ gguf, threads, contextLength }, log) {
      const packages = join(cache, 'node');
      const binaries = `@node-llama-cpp/${process.platform}-${process.arch}`;
      const names = ['node-llama-cpp', binaries].map((name) => `${name}@${NODE_LLAMA_CPP_VERSION}`);
      await nodeModulesWith(names, packages, log);
      const script = join(peersFolder, 'node_llama_cpp_peer.mjs');
      return {
        title: 'node-llama-cpp',
        program: process.execPath,
        args: [script, packages, gguf, String(threads), String(contextLength)],
        // Its own build of llama.cpp's kernels, not one of the system.
        isRight: (runsOn) => runsOn.startsWith(join(packages, '/')),
      };
    },
  },
  'mlx-lm': {
    goals: { decode: 5 },
    async prepare({ gguf, threads, temporary }, log) {
      const python = await pythonWith(
        join(peersFolder, 'requirements.txt'),
        join(cache, 'python'),
        log,
      );
      const model = join(temporary, 'mlx-lm');
      await convertCheckpoint(gguf, model, { dtype: 'float32' });
      return {
        title: 'mlx-lm',
        program: python,
        args: [join(peersFolder, 'mlx_lm_peer.py'), model],
        env: {
          OPENBLAS_NUM_THREADS: String(threads),
          OMP_NUM_THREADS: String(threads),
          HF_HUB_OFFLINE: '1',
          PYTHONNOUSERSITE: '1',
          PYTHONDONTWRITEBYTECODE: '1',
          ...openblasPreload(native),
        },
        isRight: (runsOn) => isPreloadedOpenblas(native, runsOn),
      };
    },
  },
} as const satisfies Record<string, PeerDefinition>;

export type PeerName = keyof typeof PEERS;
export const PEER_NAMES = Object.keys(PEERS) as PeerName[];

/** A folder in the cache that is removed in the end, by whatever way that comes. */
export async function temporaryFolder(): Promise<Disposable & { path: string }> {
  await mkdir(cache, { recursive: true });
  const path = await mkdtemp(join(cache, 'model-'));
  const remove = () => rmSync(path, { recursive: true, force: true });
  const forget = onInterrupt(remove);
  return {
    path,
    [Symbol.dispose]() {
      forget();
      remove();
    },
  };
}
