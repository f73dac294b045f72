#!/usr/bin/env node
/** `whisper AUDIO…`: only parsing and printing. */
import { existsSync } from 'node:fs';
import { basename, extname } from 'node:path';
import {
  addExportCommands,
  addGoldenCommand,
  addModelsCommand,
  audioProgress,
  createProgram,
  downloadProgress,
  EXIT_FAILURE,
  interruptSignal,
  optionsOf,
  planOutput,
  printError,
  printWarning,
  runProgram,
  userPath,
  valueOf,
  withLogOptions,
  withModelOptions,
  withOutputOptions,
  withSeedOption,
  type LogOptions,
  type ModelOptions,
  type OutputOptions,
  type OutputPlan,
  type SeedOptions,
} from '@mlx-runners/runner';
import { loadOptionsSchema } from '@mlx-runners/runner/library';
import { ProfileSummary } from '@mlx-runners/program';
import {
  AudioError,
  FileError,
  mx,
  nearestName,
  printable,
  UsageError,
} from '@mlx-runners/mlx-core';
import {
  checkAudioFile,
  formatTranscript,
  TRANSCRIPT_FORMATS,
  transcriptJson,
  writeOutputs,
  type Transcript,
  type TranscriptFormat,
} from '@mlx-runners/speech';
import { Option } from 'commander';
import { addBenchCommand } from './bench.js';
import { parseConfig } from './config.js';
import { loadForExport, tinyForExport } from './export-subject.js';
import { goldenCheckers } from './golden.js';
import { manifest } from './manifest.js';
import { transcribeOptionsSchema, type TranscribeOptions } from './options.js';
import { load, type WhisperModel } from './pipeline.js';

type Options = ModelOptions &
  TranscribeOptions &
  LogOptions &
  SeedOptions &
  OutputOptions<TranscriptFormat | 'all'> & { readonly profile?: boolean };

const defaults: Record<string, unknown> = transcribeOptionsSchema.parse({});
const schemas: Record<string, (typeof transcribeOptionsSchema.shape)[keyof TranscribeOptions]> =
  transcribeOptionsSchema.shape;

/** An option of `transcribe()` as a flag: `--best-of` is `bestOf`, with its limits and default. */
function decodingOption(flags: string, description: string): Option {
  const option = new Option(flags, description);
  // commander would take --no-speech-threshold for the negation of a --speech-threshold.
  option.negate = false;
  const name = option.attributeName();
  return option.default(defaults[name]).argParser(valueOf(option.long!, schemas[name]));
}

const program = createProgram('whisper', import.meta.url);
program.argument('<audio...>', 'WAV files; - is standard input').usage('[options] <audio...>');
withModelOptions(program, { defaultModel: manifest.defaultModel });
const decoding: [flags: string, description: string][] = [
  ['-l, --language <name>', 'language of the speech, such as en or English; detected unless given'],
  ['--task <task>', 'transcribe keeps the language, translate gives English'],
  [
    '--temperature <t>',
    'sampling temperatures, tried in order until a text is plausible, such as 0,0.4',
  ],
  ['--best-of <n>', 'candidates at temperatures above 0'],
  ['--no-speech-threshold <p>', 'no-speech probability above which a window may be silent'],
  ['--logprob-threshold <x>', 'mean log-probability below which a text is tried again'],
  ['--compression-ratio-threshold <x>', 'compression ratio above which a text is tried again'],
  ['--initial-prompt <text>', 'text shown to the model before the first window'],
];
for (const [flags, description] of decoding) {
  program.addOption(decodingOption(flags, description));
}
program.option('--no-condition-on-previous-text', 'decode each window without the text before it');
withOutputOptions(program, { formats: [...TRANSCRIPT_FORMATS, 'all'], defaultFormat: 'txt' });
withSeedOption(program);
withLogOptions(program);
program.option('--profile', 'show how long each op takes, of an export that --model names');
program.action(transcribeFiles);
addGoldenCommand(program, goldenCheckers);
addBenchCommand(program);
addModelsCommand(program, manifest, { checkConfig: parseConfig });
addExportCommands(program, manifest, {
  load: loadForExport,
  tiny: tinyForExport,
  example: (folder) => `whisper -m ${folder} audio.wav`,
  encoder: true,
});

await runProgram(program);

interface Input {
  /** As the user typed it. */
  name: string;
  /** For people. */
  label: string;
  path: string;
  /** Of the files written, without extension. */
  baseName: string;
}

function inputOf(file: string): Input {
  if (file === '-' || file === '/dev/stdin') {
    const label = 'standard input';
    return { name: file === '-' ? label : file, label, path: '/dev/stdin', baseName: 'stdin' };
  }
  const isAddress = /^[a-z]+:\/\//i.test(file);
  return {
    name: file,
    // A name such as that of <(command) says nothing without its folder.
    label: file.startsWith('/dev/') ? file : basename(file),
    path: isAddress ? file : userPath(file),
    baseName: basename(file, extname(file)),
  };
}

/** @throws UsageError for a name that was meant as a command */
function checkNoCommand(name: string): void {
  if (/[^a-z]/i.test(name) || existsSync(userPath(name))) return;
  const nearest = nearestName(
    name,
    program.commands.map((command) => command.name()),
  );
  if (nearest) {
    throw new UsageError(`There is no file '${name}': did you mean the command ${nearest}?`);
  }
  if (manifest.tasks.includes(name)) {
    throw new UsageError(
      `There is no file '${name}': files to ${name} are given without a command.`,
    );
  }
}

async function transcribeFiles(files: string[], options: Options): Promise<void> {
  checkNoCommand(files[0]);
  const inputs = files.map(inputOf);
  const plan = planOutput(
    options,
    TRANSCRIPT_FORMATS,
    inputs.map(({ baseName }) => baseName),
    inputs.map(({ path }) => path),
  );
  if (inputs.filter(({ path }) => path === '/dev/stdin').length > 1) {
    throw new UsageError('Standard input can be read only once.');
  }
  // A typo in a name shows before the model is loaded.
  const readable: Input[] = [];
  for (const input of inputs) {
    if (await succeeds(input, plan, () => checkAudioFile(input.path))) readable.push(input);
  }
  if (readable.length === 0) return;
  if (options.threads !== undefined) mx.setThreads(options.threads);
  const summary = options.profile ? new ProfileSummary() : undefined;
  await using model = await loadWithProgress(options, summary);
  if (options.dtype?.endsWith('16') && mx.device() === 'cpu' && !options.quiet) {
    printWarning(`${options.dtype} on the CPU is many times slower than float32.`);
  }
  for (const input of readable) {
    await succeeds(input, plan, () => transcribeFile(model, input, plan, options));
  }
  if (summary) process.stderr.write(summary.format());
}

/** Does something with one input. Its failure is told, and the others still have their turn. */
async function succeeds(
  { name }: Input,
  { json }: OutputPlan<TranscriptFormat>,
  work: () => Promise<void>,
): Promise<boolean> {
  try {
    await work();
    return true;
  } catch (error) {
    if (!(error instanceof AudioError || error instanceof FileError)) throw error;
    printError(error);
    if (json) printJson({ file: name, error: { code: error.code, message: error.message } });
    process.exitCode = EXIT_FAILURE;
    return false;
  }
}

async function loadWithProgress(
  options: Options,
  summary: ProfileSummary | undefined,
): Promise<WhisperModel> {
  using progress = downloadProgress(options);
  return await load(options.model, {
    ...optionsOf(loadOptionsSchema, options),
    signal: interruptSignal(),
    onProgress: progress.update,
    onProfile: summary && (({ method, profile }) => summary.add(method, profile)),
  });
}

async function transcribeFile(
  model: WhisperModel,
  input: Input,
  plan: OutputPlan<TranscriptFormat>,
  options: Options,
): Promise<void> {
  const started = performance.now();
  const transcript = await transcribeWithProgress(model, input, options);
  const seconds = (performance.now() - started) / 1000;
  await output(input, transcript, plan, options);
  if (!options.quiet) process.stderr.write(`${timing(input, transcript, seconds)}\n`);
}

async function transcribeWithProgress(
  model: WhisperModel,
  { label, path }: Input,
  options: Options,
): Promise<Transcript> {
  using progress = audioProgress(label, options);
  const transcription = model.transcribe(path, {
    ...optionsOf(transcribeOptionsSchema, options),
    signal: interruptSignal(),
    onProgress: ({ seconds, duration }) => progress.update(seconds, duration),
  });
  return await transcription.result();
}

async function output(
  { name, baseName }: Input,
  transcript: Transcript,
  { outputDir, formats, json }: OutputPlan<TranscriptFormat>,
  { quiet }: Options,
): Promise<void> {
  if (outputDir !== undefined) {
    const paths = await writeOutputs(transcript, { outputDir, baseName, formats });
    const written = paths.map((path) => printable(path, Infinity)).join(', ');
    if (!quiet) process.stderr.write(`wrote ${written}\n`);
  }
  if (json) printJson({ file: name, ...transcriptJson(transcript) });
  else if (outputDir === undefined) process.stdout.write(formatTranscript(transcript, formats[0]));
}

/** One line, so that the results of several inputs are a line each. */
function printJson(result: object): void {
  process.stdout.write(`${JSON.stringify(result)}\n`);
}

function timing({ label }: Input, { duration, language }: Transcript, seconds: number): string {
  const speed = (duration / seconds).toFixed(1);
  return `${printable(label, Infinity)}: ${duration.toFixed(1)} s of audio (${language ?? 'no speech'}) in ${seconds.toFixed(2)} s, ${speed}x real time`;
}
