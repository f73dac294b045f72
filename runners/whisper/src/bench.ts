/** `whisper bench`: transcription side by side with others. bench/README.md says what is compared. */
import { existsSync, rmSync } from 'node:fs';
import { mkdir, mkdtemp, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { mx, UsageError } from '@mlx-runners/mlx-core';
import {
  benchLog,
  benchRow,
  benchTable,
  downloadProgress,
  interruptSignal,
  machineDescription,
  measureInTurns,
  onInterrupt,
  peakBytes,
  userPath,
  wantedPeers,
  whyNoPeers,
  withBenchOptions,
  writeBenchFile,
  type BenchLog,
  type BenchOptions,
  type BenchRow,
  type MeasuredFunction,
} from '@mlx-runners/runner';
import { resolveModel } from '@mlx-runners/hub';
import { loadAudio, type Audio } from '@mlx-runners/speech';
import type { Command } from 'commander';
import {
  Peer,
  PEER_NAMES,
  PEERS,
  peersFolder,
  workspaceFiles,
  type PeerFiles,
  type PeerName,
  type TimedTranscript,
} from './bench-peers.js';
import { writeMlxWhisperModel } from './bench-weights.js';
import type { Recogniser } from './decode.js';
import type { Whisper } from './model.js';
import { manifest } from './manifest.js';
import { loadRecogniser, WhisperModel } from './pipeline.js';

/** The time that is asked for in the standard comparison. */
const TARGET_SECONDS = 2.2;
const STANDARD_THREADS = 2;
const LANGUAGE = 'en';

type Options = BenchOptions<PeerName>;

export function addBenchCommand(program: Command): void {
  const command = program
    .command('bench')
    .description('measure transcription side by side with others, on the CPU in float32')
    .argument('[audio]', 'WAV file of English speech; in the workspace, 11 s of it unless given');
  withBenchOptions(command, {
    model: manifest.defaultModel,
    threads: STANDARD_THREADS,
    peers: PEER_NAMES,
  }).action(bench);
}

async function bench(audioPath: string | undefined, options: Options): Promise<void> {
  const log = benchLog(options);
  const plan = planned(audioPath, options, log);
  const audio = await loadAudio(plan.recording, { signal: interruptSignal() });
  mx.setThreads(options.threads);
  const modelFolder = await modelFiles(options);
  const peers = peersFor(modelFolder, plan.peers, log);
  const recogniser = await loadRecogniser(modelFolder, { device: 'cpu', dtype: 'float32' });
  await using model = new WhisperModel(recogniser);
  const ours = await warmUp(mlxRunners(model, audio), log);

  const length = `${audio.duration.toFixed(1)} s`;
  const subject = `${basename(plan.recording)} (${length}), ${basename(options.model)}`;
  const rows: BenchRow[] = [];
  if (peers.length > 0) {
    using files = await peerFiles(recogniser, audio, { modelFolder, threads: options.threads });
    for (const name of peers) {
      await using peer = await Peer.start(name, files, log);
      const runs = Math.min(options.runs, PEERS[name].mostRuns);
      const goal = plan.isStandard ? PEERS[name].goal : null;
      rows.push(...(await compare(ours, await warmUp(peer, log), { subject, runs, goal })));
    }
  }
  const seconds = rows[0]?.ours ?? (await measureAlone(ours, options.runs));
  if (plan.isStandard) rows.push(targetRow(subject, seconds));

  const speed = (audio.duration / seconds).toFixed(1);
  const memory = megabytes(ours.first.peakBytes).toFixed(0);
  process.stdout.write(`${subject}: ${seconds.toFixed(2)} s, ${speed}x real time, ${memory} MB\n`);
  if (rows.length > 0) process.stdout.write(benchTable(rows));
  // The committed results are only ever replaced by a whole comparison.
  const isWhole = plan.isStandard && peers.length === PEER_NAMES.length;
  const out = options.out ?? (isWhole ? workspaceFiles.results : undefined);
  if (out !== undefined) {
    await writeBenchFile(out, { machine: machineDescription(), rows });
    log(`wrote ${out}`);
  }
}

interface Plan {
  recording: string;
  peers: readonly PeerName[];
  /** Whether recording, model and threads are those that the goals hold for. */
  isStandard: boolean;
}

/** What the command line asks for, as far as it can be had here. */
function planned(audioPath: string | undefined, options: Options, log: BenchLog): Plan {
  if (audioPath === undefined && !existsSync(workspaceFiles.recording)) {
    throw new UsageError('Outside the workspace there is no recording to transcribe: give a file.');
  }
  const peers = wantedPeers(options, PEER_NAMES, whyNoPeers(peersFolder), log);
  const { model, threads } = options;
  return {
    recording: audioPath === undefined ? workspaceFiles.recording : userPath(audioPath),
    peers,
    isStandard:
      audioPath === undefined && model === manifest.defaultModel && threads === STANDARD_THREADS,
  };
}

async function modelFiles({ model, quiet }: Options): Promise<string> {
  using progress = downloadProgress({ quiet });
  const { models } = manifest;
  return await resolveModel(model, {
    models,
    signal: interruptSignal(),
    onProgress: progress.update,
  });
}

/** The peers that can read the model. */
function peersFor(modelFolder: string, wanted: readonly PeerName[], log: BenchLog): PeerName[] {
  const isCtranslate2 = existsSync(join(modelFolder, 'model.bin'));
  return wanted.filter((name) => {
    if (isCtranslate2 || !PEERS[name].needsCtranslate2) return true;
    log(`without ${name}: it reads CTranslate2's files, and the model has Hugging Face's`);
    return false;
  });
}

/** Whoever transcribes the recording. */
interface Contestant {
  readonly name: string;
  transcribe(): Promise<TimedTranscript>;
}

function mlxRunners(model: WhisperModel, audio: Audio): Contestant {
  return {
    name: 'mlx-runners',
    async transcribe() {
      const options = { language: LANGUAGE, temperature: [0], signal: interruptSignal() };
      const started = performance.now();
      const { text } = await model.transcribe(audio, options).result();
      const seconds = (performance.now() - started) / 1000;
      return { text, seconds, peakBytes: peakBytes() };
    },
  };
}

interface WarmContestant extends Contestant {
  readonly first: TimedTranscript;
}

async function warmUp(contestant: Contestant, log: BenchLog): Promise<WarmContestant> {
  log(`warming up ${contestant.name}`);
  const first = await contestant.transcribe();
  return { name: contestant.name, transcribe: () => contestant.transcribe(), first };
}

/** What the peers read: the model in their formats, and the samples that we transcribe. */
async function peerFiles(
  { model }: Recogniser<Whisper>,
  { samples }: Audio,
  { modelFolder, threads }: { modelFolder: string; threads: number },
): Promise<Disposable & PeerFiles> {
  await mkdir(workspaceFiles.cache, { recursive: true });
  const mlxFolder = await mkdtemp(join(workspaceFiles.cache, 'model-'));
  const remove = () => rmSync(mlxFolder, { recursive: true, force: true });
  const forget = onInterrupt(remove);
  const dispose = () => {
    forget();
    remove();
  };
  try {
    const samplesFile = join(mlxFolder, 'samples.f32');
    await writeMlxWhisperModel(model, mlxFolder);
    await writeFile(samplesFile, samples);
    return {
      mlxFolder,
      modelFolder,
      samplesFile,
      threads,
      language: LANGUAGE,
      [Symbol.dispose]: dispose,
    };
  } catch (error) {
    dispose();
    throw error;
  }
}

async function compare(
  ours: WarmContestant,
  peer: WarmContestant,
  { subject, runs, goal }: { subject: string; runs: number; goal: number | null },
): Promise<BenchRow[]> {
  checkWords(ours, peer.name, peer.first.text);
  const measured = await measureInTurns([timed(ours, ours), timed(peer, ours)], runs);
  const seconds = ({ name }: Contestant) => measured.get(name)!.median;
  const common = { peerName: peer.name, better: 'lower' } as const;
  return [
    benchRow({
      ...common,
      what: `transcription of ${subject}, ${runs === 1 ? 'one run' : `median of ${runs}`}`,
      ours: seconds(ours),
      peer: seconds(peer),
      unit: 's',
      goal,
    }),
    benchRow({
      ...common,
      what: `peak memory of loading and transcribing ${subject}`,
      ours: megabytes(ours.first.peakBytes),
      peer: megabytes(peer.first.peakBytes),
      unit: 'MB',
      goal: null,
    }),
  ];
}

async function measureAlone(ours: WarmContestant, runs: number): Promise<number> {
  return (await measureInTurns([timed(ours, ours)], runs)).get(ours.name)!.median;
}

/** Measured by its own clock, so that talking to a peer's process costs nothing. */
function timed(contestant: Contestant, reference: WarmContestant): MeasuredFunction {
  return {
    name: contestant.name,
    run: async () => {
      const { text, seconds } = await contestant.transcribe();
      checkWords(reference, contestant.name, text);
      return seconds;
    },
  };
}

/** Who writes something else has not done the same work. */
function checkWords({ name, first }: WarmContestant, other: string, text: string): void {
  if (words(first.text) === words(text)) return;
  throw new Error(
    `The transcripts differ, so their times can't be compared. ${name}: "${first.text}"; ${other}: "${text}"`,
  );
}

/** Without case and punctuation, in which runs of one model may differ. */
function words(text: string): string {
  return text
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s]/gu, '')
    .split(/\s+/)
    .join(' ')
    .trim();
}

/** The time that the project aims for, in the place of a peer's. */
function targetRow(subject: string, seconds: number): BenchRow {
  return benchRow({
    what: `transcription of ${subject}`,
    ours: seconds,
    peer: TARGET_SECONDS,
    peerName: 'the target, not measured',
    unit: 's',
    better: 'lower',
    goal: 1,
  });
}

function megabytes(bytes: number): number {
  return Number((bytes / 1e6).toFixed(1));
}
