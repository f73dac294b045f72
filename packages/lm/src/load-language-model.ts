/** Language models from files: what all kinds of them come to. */
import { createHash } from 'node:crypto';
import { existsSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { CheckpointError, mx, throwIfAborted, UsageError, type Dtype } from '@mlx-runners/mlx-core';
import { bytesOf } from '@mlx-runners/mlx-core/program';
import { readJsonFile, type Precision } from '@mlx-runners/nn';
import { compileModel, isExport, loadExport, type ProgramModel } from '@mlx-runners/program';
import {
  ggufChatTemplate,
  loadChatTemplate,
  loadTokenizer,
  Tokenizer,
  tokenizerFile,
  type ChatTemplate,
} from '@mlx-runners/text';
import { computeIn, usualDtype } from './activation-dtype.js';
import { loadDecoder, readDecoderCheckpoint, type DecoderCheckpoint } from './checkpoint.js';
import { DecoderModel, type KvCacheOptions } from './decoder-model.js';
import { decoderProgram } from './decoder-program.js';
import type { Decoder } from './decoder.js';
import { samplingDefaults, type SamplingDefaults } from './generation-config.js';
import { stopIds } from './stop-ids.js';

export interface LoadLanguageModelOptions {
  /** Of activations and of weights that are not packed. */
  dtype?: Dtype;
  /** 'fast' rounds activations to 8 bits before packed matrices are multiplied. Default 'exact': in 'fast' small models may answer otherwise. */
  precision?: Precision;
  /** The most tokens of a sequence: what the model was made for, unless given. */
  maxContextLength?: number;
  /** How keys and values are kept: float32, from 512 tokens on, unless given. */
  kvCache?: KvCacheOptions;
  /** A file or folder that `loadTokenizer` of @mlx-runners/text reads, in the place of the model's own tokenizer. */
  tokenizer?: string;
  signal?: AbortSignal;
}

/** What a language model is made of. */
export interface LanguageModelParts {
  decoder: DecoderModel;
  samplingDefaults: SamplingDefaults;
  tokenizer: Tokenizer;
  template: ChatTemplate | undefined;
  stopIds: ReadonlySet<number>;
}

/** @throws as `LanguageModel.load` */
export async function loadParts(
  path: string,
  options: LoadLanguageModelOptions,
): Promise<LanguageModelParts> {
  return isExport(path) ? await loadExported(path, options) : await compile(path, options);
}

async function loadExported(
  folder: string,
  { dtype, precision, maxContextLength, tokenizer, signal }: LoadLanguageModelOptions,
): Promise<LanguageModelParts> {
  const program = loadExport(folder);
  try {
    const { dtype: exported, sha256 } = program.manifest;
    if (dtype !== undefined && dtype !== exported) {
      throw new UsageError(
        `${folder} is an export in ${exported}: for ${dtype} export the model once more.`,
      );
    }
    if (precision !== undefined) {
      throw new UsageError(`${folder} is an export, whose precision was settled when it was made.`);
    }
    const decoder = new DecoderModel(program, folder, { fingerprint: sha256, maxContextLength });
    const text = await textParts(folder, tokenizer);
    if (tokenizer !== undefined) {
      checkVocabulary(text.tokenizer, decoder.constants.vocabularySize, tokenizer);
    }
    throwIfAborted(signal);
    return { decoder, ...text };
  } catch (error) {
    program.dispose();
    throw error;
  }
}

async function compile(
  path: string,
  options: LoadLanguageModelOptions,
): Promise<LanguageModelParts> {
  const { dtype = usualDtype(), precision = 'exact', maxContextLength, signal } = options;
  const checkpoint = readDecoderCheckpoint(path);
  const text = await textParts(path, options.tokenizer, checkpoint);
  throwIfAborted(signal);
  const network = loadDecoder(checkpoint, { precision });
  try {
    if (options.tokenizer !== undefined) {
      checkVocabulary(text.tokenizer, network.vocabularySize, options.tokenizer);
    }
    computeIn(network, dtype);
    const { methods, ...program } = decoderProgram(network, { maxContextLength });
    const compiled = (some: typeof methods, wait?: AbortSignal): Promise<ProgramModel> =>
      compileModel({ model: { id: path }, dtype, ...program, methods: some }, { signal: wait });
    const { step, ...others } = methods;
    const decoder = new DecoderModel(await compiled(others, signal), path, {
      fingerprint: fingerprintOf(network, checkpoint, { dtype, precision }),
      network,
      // Nobody waits for what only batches need.
      compileSteps: () => compiled({ step }),
    });
    return { decoder, ...text };
  } catch (error) {
    network.dispose();
    throw error;
  }
}

/**
 * Of the configuration, how it is computed, and some bytes of each weight: any training or packing changes them.
 * Weights are mapped, and only what is looked at is read.
 */
function fingerprintOf(
  network: Decoder,
  { config }: DecoderCheckpoint,
  computed: { dtype: Dtype; precision: Precision },
): string {
  const hash = createHash('sha256').update(JSON.stringify([config, computed]));
  for (const [name, weight] of network.parameters()) {
    hash.update(`${name} ${weight.dtype} ${weight.shape.join()}`);
    const middle = Math.floor(weight.size / 2);
    using sample = mx.tidy(() =>
      weight.reshape([-1]).slice([middle], [Math.min(middle + 64, weight.size)]),
    );
    hash.update(bytesOf(sample));
  }
  return hash.digest('hex');
}

/**
 * Tokenizer, template and stop ids of a folder, or of what was read from a GGUF file.
 *
 * @param given a tokenizer in the place of theirs
 */
async function textParts(
  path: string,
  given: string | undefined,
  { metadata, source, config }: Partial<DecoderCheckpoint> = {},
): Promise<Omit<LanguageModelParts, 'decoder'>> {
  const folder = statSync(path).isDirectory() ? path : dirname(path);
  // The folder of a file may belong to others.
  const isOwn = folder === path || metadata === undefined;
  const isInside = metadata && !(isOwn && tokenizerFile(folder) !== undefined);
  const tokenizer =
    isInside && given === undefined
      ? Tokenizer.fromGguf(metadata, source)
      : await loadTokenizer(given ?? folder);
  const ownTemplate = isOwn ? await loadChatTemplate(folder) : undefined;
  const template = ownTemplate ?? (metadata && ggufChatTemplate(metadata, source));
  const generationConfig = isOwn ? jsonIn(folder, 'generation_config.json') : undefined;
  const ends = stopIds({
    generationConfig,
    config: (config as Json | undefined) ?? jsonIn(folder, 'config.json'),
    tokenizer,
    templates: template && Object.values(template.sources),
  });
  return {
    tokenizer,
    template,
    stopIds: ends,
    samplingDefaults: samplingDefaults(generationConfig),
  };
}

/**
 * @param source where a tokenizer is from that did not come with the model
 * @throws CheckpointError when it has ids that the model doesn't know
 */
export function checkVocabulary({ vocabSize }: Tokenizer, known: number, source: string): void {
  if (vocabSize <= known) return;
  throw new CheckpointError(
    `${source} is the tokenizer of another model: it has ${vocabSize} tokens, and the model knows ${known}.`,
  );
}

type Json = Readonly<Record<string, unknown>>;

function jsonIn(folder: string, name: string): Json | undefined {
  const file = join(folder, name);
  if (!existsSync(file)) return undefined;
  const json = readJsonFile(file);
  if (typeof json === 'object' && json !== null && !Array.isArray(json)) return json as Json;
  throw new CheckpointError(`${file} is not an object.`);
}
