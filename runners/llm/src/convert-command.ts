/** `llm convert`: a checkpoint as a folder that mlx-lm loads, with the flags of its own `convert`. */
import { printable, UsageError } from '@mlx-runners/mlx-core';
import { convertCheckpoint, type Conversion, type ConvertOptions } from '@mlx-runners/lm';
import { inUnits } from '@mlx-runners/program';
import {
  choice,
  downloadProgress,
  interruptSignal,
  nonEmpty,
  userModel,
  userPath,
  wholeNumber,
  withLogOptions,
  type LogOptions,
} from '@mlx-runners/runner';
import { Option, type Command } from 'commander';
import { manifest } from './manifest.js';
import { findLanguageModel } from './pipeline.js';

const modes = ['affine', 'mxfp4', 'nvfp4', 'mxfp8'] as const;
const dtypes = ['float32', 'float16', 'bfloat16'] as const;

interface Options extends LogOptions {
  readonly model: string;
  readonly out: string;
  readonly quantize?: boolean;
  readonly qBits?: number;
  readonly qGroupSize?: number;
  readonly qMode?: (typeof modes)[number];
  readonly dtype?: (typeof dtypes)[number];
  readonly dequantize?: boolean;
  readonly repack?: 'affine';
}

export function addConvertCommand(program: Command): void {
  const command = program
    .command('convert')
    .description('write a model as a folder that mlx-lm loads')
    .addOption(
      new Option('-m, --model <id or path>', 'model to convert')
        .default(manifest.defaultModel)
        .argParser((value) => userModel(nonEmpty('--model')(value))),
    )
    .addOption(
      new Option('--out <folder>', 'the folder to write, new or empty')
        .makeOptionMandatory()
        .argParser((value) => userPath(nonEmpty('--out')(value))),
    )
    .option('-q, --quantize', 'pack matrices')
    .addOption(count('--q-bits', "bits of a packed weight; the mode's own unless given"))
    .addOption(count('--q-group-size', "weights that share a scale; the mode's own unless given"))
    .addOption(choice('--q-mode', 'how matrices are packed; affine unless given', modes))
    .addOption(choice('--dtype', 'of plain numbers and scales', dtypes))
    .option('-d, --dequantize', 'plain numbers also where the model packs matrices')
    .addOption(
      choice('--repack', "blocks of GGUF in MLX's affine format where it holds them exactly", [
        'affine',
      ]),
    );
  withLogOptions(command).action(run);
}

function count(flag: string, description: string): Option {
  return new Option(`${flag} <n>`, description).argParser(wholeNumber(flag, { min: 1 }));
}

async function run(options: Options): Promise<void> {
  const { model, out, dtype, dequantize, repack, json, quiet } = options;
  const quantize = quantisation(options);
  const signal = interruptSignal();
  const source = await found(model, options);
  const started = performance.now();
  if (!quiet) process.stderr.write(`converting ${printable(source, Infinity)}\n`);
  const written = await convertCheckpoint(source, out, {
    ...{ quantize, dtype, dequantize, repack, signal },
  });
  const seconds = (performance.now() - started) / 1000;
  process.stdout.write(json ? `${JSON.stringify({ ...written, seconds })}\n` : line(written));
  if (!quiet) process.stderr.write(`converted in ${seconds.toFixed(2)} s\n`);
}

async function found(model: string, options: LogOptions): Promise<string> {
  using progress = downloadProgress(options);
  const transfer = { signal: interruptSignal(), onProgress: progress.update };
  return await findLanguageModel(model, transfer);
}

/** @throws UsageError for details of a packing that was not asked for */
function quantisation({ quantize, qBits, qGroupSize, qMode }: Options): ConvertOptions['quantize'] {
  if (quantize) return { bits: qBits, groupSize: qGroupSize, mode: qMode };
  if (qBits === undefined && qGroupSize === undefined && qMode === undefined) return undefined;
  throw new UsageError('--q-bits, --q-group-size and --q-mode go with --quantize.');
}

/** `694 tensors, 115 MB, 211 layers packed` */
function line({ tensors, bytes, packedLayers }: Conversion): string {
  const packed = packedLayers > 0 ? `, ${packedLayers} layers packed` : '';
  return `${tensors} tensors, ${inUnits(bytes)}${packed}\n`;
}
