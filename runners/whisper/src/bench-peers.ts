/** The peers of the bench, each a process that stays loaded. bench/README.md says what they are. */
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { isPreloadedOpenblas, LineProcess, openblasPreload, pythonWith } from '@mlx-runners/runner';
import { z } from 'zod';

const runner = fileURLToPath(new URL('..', import.meta.url));
const workspace = join(runner, '..', '..');
export const peersFolder = join(runner, 'bench', 'peers');

/** What belongs to the workspace and is not published. */
export const workspaceFiles = {
  recording: join(workspace, 'packages', 'test-fixtures', 'speech', 'jfk.wav'),
  results: join(runner, 'bench', 'results', 'whisper.json'),
  /** The peers' environment, and weights while they are compared. */
  cache: join(workspace, '.cache', 'bench', 'whisper'),
  /** Our OpenBLAS under the names that libmlx looks for. */
  native: join(workspace, 'packages', 'mlx-core', 'build', 'native'),
};

/** What peers are given. */
export interface PeerFiles {
  /** mlx-whisper's weights.safetensors and config.json. */
  mlxFolder: string;
  /** The folder that we load, which only peers for CTranslate2's files can read, too. */
  modelFolder: string;
  /** Mono float32 samples at 16 kHz. */
  samplesFile: string;
  language: string;
  threads: number;
}

interface PeerDefinition {
  title: string;
  script: string;
  arguments(files: PeerFiles): string[];
  environment?(): Record<string, string>;
  /** Whether the process runs on what its name promises. */
  isRight(runsOn: string): boolean;
  needsCtranslate2: boolean;
  /** How many times faster we have to be in the standard comparison. */
  goal: number | null;
  mostRuns: number;
}

const mlxWhisper = {
  script: 'mlx_whisper_peer.py',
  arguments: ({ mlxFolder, samplesFile, language }: PeerFiles) => [
    mlxFolder,
    samplesFile,
    language,
  ],
  needsCtranslate2: false,
};

function fasterWhisper(computeType: string): PeerDefinition {
  return {
    title: `faster-whisper ${computeType}`,
    script: 'faster_whisper_peer.py',
    arguments: ({ modelFolder, samplesFile, language, threads }) => [
      ...[modelFolder, samplesFile, language, computeType, String(threads)],
    ],
    isRight: (runsOn) => runsOn.startsWith(computeType),
    needsCtranslate2: true,
    goal: null,
    mostRuns: Infinity,
  };
}

export const PEERS = {
  'faster-whisper-float32': fasterWhisper('float32'),
  'faster-whisper-int8': fasterWhisper('int8'),
  'mlx-whisper-openblas': {
    ...mlxWhisper,
    title: 'mlx-whisper with OpenBLAS',
    environment: () => openblasPreload(workspaceFiles.native),
    isRight: isOurBlas,
    goal: 2.5,
    mostRuns: Infinity,
  },
  'mlx-whisper-stock': {
    ...mlxWhisper,
    title: 'mlx-whisper as installed',
    isRight: (runsOn) => !isOurBlas(runsOn),
    goal: 20,
    // A run takes most of a minute: more of them would tell nothing new.
    mostRuns: 1,
  },
} as const satisfies Record<string, PeerDefinition>;

export type PeerName = keyof typeof PEERS;
export const PEER_NAMES = Object.keys(PEERS) as PeerName[];

function isOurBlas(runsOn: string): boolean {
  return isPreloadedOpenblas(workspaceFiles.native, runsOn);
}

export interface TimedTranscript {
  text: string;
  /** Of the transcription alone. */
  seconds: number;
  /** The most memory that the process held since it started (VmHWM). */
  peakBytes: number;
}

const greeting = z.object({ version: z.string(), runsOn: z.string() });
const transcript = z.object({ text: z.string(), seconds: z.number(), peakBytes: z.number() });

/** A peer that has loaded its model. */
export class Peer implements AsyncDisposable {
  readonly name: string;
  readonly #process: LineProcess;

  private constructor(name: string, process: LineProcess) {
    this.name = name;
    this.#process = process;
  }

  /** @throws Error when it can't be installed or started, or does not run on what its name says */
  static async start(name: PeerName, files: PeerFiles, log: (line: string) => void): Promise<Peer> {
    const definition: PeerDefinition = PEERS[name];
    const requirements = join(peersFolder, 'requirements.txt');
    const python = await pythonWith(requirements, join(workspaceFiles.cache, 'python'), log);
    const script = join(peersFolder, definition.script);
    const process = new LineProcess(python, [script, ...definition.arguments(files)], {
      OPENBLAS_NUM_THREADS: String(files.threads),
      OMP_NUM_THREADS: String(files.threads),
      HF_HUB_OFFLINE: '1',
      PYTHONNOUSERSITE: '1',
      PYTHONDONTWRITEBYTECODE: '1',
      ...definition.environment?.(),
    });
    try {
      const { version, runsOn } = greeting.parse(await process.read());
      if (!definition.isRight(runsOn)) {
        throw new Error(`${definition.title} runs on ${runsOn || 'nothing known'}.`);
      }
      return new Peer(definition.title.replace(' ', ` ${version} `), process);
    } catch (error) {
      await process[Symbol.asyncDispose]();
      throw error;
    }
  }

  async transcribe(): Promise<TimedTranscript> {
    this.#process.write('{}');
    return transcript.parse(await this.#process.read());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#process[Symbol.asyncDispose]();
  }
}
