#!/usr/bin/env node
/** `whisper AUDIO…`: only parsing and printing. */
import { basename, extname } from 'node:path';
import {
  addGoldenCommand,
  audioProgress,
  choice,
  createProgram,
  downloadProgress,
  interruptSignal,
  numberFrom,
  runProgram,
  userPath,
  wholeNumber,
  withLogOptions,
  withModelOptions,
  withOutputOptions,
  withSeedOption,
  type LogOptions,
  type ModelOptions,
  type OutputOptions,
  type SeedOptions,
} from '@mlx-runners/runner';
import { mx, UsageError } from '@mlx-runners/mlx-core';
import {
  formatTranscript,
  TRANSCRIPT_FORMATS,
  writeOutputs,
  type Transcript,
  type TranscriptFormat,
} from '@mlx-runners/speech';
import { addBenchCommand } from './bench.js';
import { goldenCheckers } from './golden.js';
import { load, manifest, type WhisperModel } from './pipeline.js';
import type { Task } from './tokens.js';
import { transcribeDefaults } from './transcribe.js';

const formats = [...TRANSCRIPT_FORMATS, 'all'] as const;

interface Options
  extends ModelOptions, LogOptions, SeedOptions, OutputOptions<TranscriptFormat | 'all'> {
  language?: string;
  task: Task;
  temperature?: number;
  bestOf: number;
  noSpeechThreshold: number;
  logprobThreshold: number;
  compressionRatioThreshold: number;
  conditionOnPreviousText: boolean;
  initialPrompt?: string;
}

const program = createProgram('whisper', import.meta.url);
program.argument('<audio...>', 'WAV files').usage('[options] <audio...>');
withModelOptions(program, { defaultModel: manifest.defaultModel });
program
  .option('--language <code>', 'language of the speech, such as en; detected unless given')
  .addOption(
    choice('--task', 'keep the language, or translate to English', [
      'transcribe',
      'translate',
    ]).default(transcribeDefaults.task),
  )
  .option(
    '--temperature <t>',
    'one sampling temperature instead of 0 with fallback to higher ones',
    numberFrom('--temperature', { min: 0, max: 2 }),
  )
  .option(
    '--best-of <n>',
    'candidates at temperatures above 0',
    wholeNumber('--best-of', { min: 1, max: 64 }),
    transcribeDefaults.bestOf,
  )
  .option(
    '--no-speech-threshold <p>',
    'no-speech probability above which a window may be silent',
    numberFrom('--no-speech-threshold', { min: 0, max: 1 }),
    transcribeDefaults.noSpeechThreshold,
  )
  .option(
    '--logprob-threshold <x>',
    'mean log-probability below which a text is tried again',
    numberFrom('--logprob-threshold', {}),
    transcribeDefaults.logprobThreshold,
  )
  .option(
    '--compression-ratio-threshold <x>',
    'compression ratio above which a text is tried again',
    numberFrom('--compression-ratio-threshold', { min: 0 }),
    transcribeDefaults.compressionRatioThreshold,
  )
  .option('--initial-prompt <text>', 'text shown to the model before the first window')
  .option('--no-condition-on-previous-text', 'decode each window without the text before it');
withOutputOptions(program, { formats, defaultFormat: 'txt' });
withSeedOption(program);
withLogOptions(program);
program.action(transcribeFiles);
addGoldenCommand(program, goldenCheckers);
addBenchCommand(program);

await runProgram(program);

async function transcribeFiles(files: string[], options: Options): Promise<void> {
  if (options.outputDir !== undefined) checkBaseNames(files);
  if (options.threads !== undefined) mx.setThreads(options.threads);
  await using model = await loadWithProgress(options);
  for (const file of files) {
    const started = performance.now();
    const transcript = await transcribeFile(model, file, options);
    const seconds = (performance.now() - started) / 1000;
    await output(file, transcript, options);
    if (!options.quiet) process.stderr.write(`${timing(file, transcript, seconds)}\n`);
  }
}

/** @throws UsageError where two inputs would write the same output file */
function checkBaseNames(files: readonly string[]): void {
  const seen = new Map<string, string>();
  for (const file of files) {
    const name = basename(file, extname(file));
    const earlier = seen.get(name);
    if (earlier !== undefined) {
      throw new UsageError(
        `${earlier} and ${file} would both be written as ${name}: give them to separate runs, or rename one.`,
      );
    }
    seen.set(name, file);
  }
}

async function loadWithProgress(options: Options): Promise<WhisperModel> {
  using progress = downloadProgress(options);
  const { model, device, dtype } = options;
  return await load(model, {
    device,
    dtype,
    signal: interruptSignal(),
    onProgress: progress.update,
  });
}

async function transcribeFile(
  model: WhisperModel,
  file: string,
  options: Options,
): Promise<Transcript> {
  using progress = audioProgress(basename(file), options);
  const { temperature, seed, ...decoding } = options;
  return await model
    .transcribe(userPath(file), {
      ...decoding,
      ...(temperature === undefined ? {} : { temperature: [temperature] }),
      ...(seed === undefined ? {} : { seed }),
      signal: interruptSignal(),
      onProgress: ({ seconds, duration }) => progress.update(seconds, duration),
    })
    .result();
}

async function output(file: string, transcript: Transcript, options: Options): Promise<void> {
  const { outputDir, outputFormat, json } = options;
  const wanted = outputFormat === 'all' ? TRANSCRIPT_FORMATS : [outputFormat];
  if (outputDir !== undefined) {
    const baseName = basename(file, extname(file));
    const paths = await writeOutputs(transcript, { outputDir, baseName, formats: wanted });
    if (!options.quiet) process.stderr.write(`wrote ${paths.join(', ')}\n`);
    if (!json) return;
  }
  for (const format of json ? (['json'] as const) : wanted) {
    process.stdout.write(formatTranscript(transcript, format));
  }
}

function timing(file: string, { duration, language }: Transcript, seconds: number): string {
  const speed = (duration / seconds).toFixed(1);
  return `${basename(file)}: ${duration.toFixed(1)} s of audio (${language ?? 'no speech'}) in ${seconds.toFixed(2)} s, ${speed}x real time`;
}
