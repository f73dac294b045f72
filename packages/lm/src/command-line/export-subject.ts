/** What `export` and `export-check` do with a decoder. */
import { mx, SequenceCache, throwIfAborted } from '@mlx-runners/mlx-core';
import { randomWeights, type Precision } from '@mlx-runners/nn';
import type { ExportDescription, SessionOptions } from '@mlx-runners/program';
import type { ExportSubject, ModelOptions } from '@mlx-runners/runner';
import { loadTokenizer } from '@mlx-runners/text';
import { computeIn, usualDtype } from '../activation-dtype.js';
import { loadDecoder, readDecoderCheckpoint, type DecoderCheckpoint } from '../checkpoint.js';
import type { Decoder } from '../decoder.js';
import {
  cacheLayers,
  decoderConstants,
  decoderProgram,
  type DecoderProgramOptions,
} from '../decoder-program.js';
import { familyOf } from '../families.js';
import { checkVocabulary } from '../load-language-model.js';
import type { DecoderExportOptions } from './decoder-export-options.js';
import { TextFiles } from './text-files.js';

export interface DecoderSubjectOptions
  extends DecoderExportOptions, Pick<ModelOptions, 'device' | 'dtype' | 'threads'> {
  precision?: Precision;
  /** As `loadTokenizer` takes it, in the place of the checkpoint's own. */
  tokenizer?: string;
}

/** What an export says of the model besides its methods. */
export interface DecoderSubjectAbout {
  model: ExportDescription['model'];
  /** Published beside what every decoder's export publishes. */
  constants?: ExportDescription['constants'];
}

/**
 * A checkpoint's decoder, and its tokenizer, template and defaults as files.
 *
 * @param path as `readDecoderCheckpoint` takes it
 */
export async function decoderSubject(
  path: string,
  about: DecoderSubjectAbout,
  options: DecoderSubjectOptions,
  signal?: AbortSignal,
): Promise<ExportSubject> {
  if (options.device) mx.setDevice(options.device);
  if (options.threads !== undefined) mx.setThreads(options.threads);
  const checkpoint = readDecoderCheckpoint(path);
  const decoder = loadDecoder(checkpoint, { precision: options.precision });
  const dtype = options.dtype ?? usualDtype();
  computeIn(decoder, dtype);
  let files: TextFiles | undefined;
  const dispose = (): void => {
    decoder.dispose();
    files?.dispose();
  };
  try {
    const { tokenizer } = options;
    if (tokenizer !== undefined) {
      checkVocabulary(await loadTokenizer(tokenizer), decoder.vocabularySize, tokenizer);
    }
    files = await TextFiles.of(path, checkpoint, tokenizer);
    throwIfAborted(signal);
    return { ...subjectOf(decoder, { ...about, dtype, files: files.paths }, options), dispose };
  } catch (error) {
    dispose();
    throw error;
  }
}

/** A decoder of random weights. */
export function randomDecoderSubject(
  config: DecoderCheckpoint['config'],
  about: DecoderSubjectAbout,
  { dtype = 'float32', ...options }: DecoderSubjectOptions,
): ExportSubject {
  const decoder = familyOf(config).build(config);
  decoder.load(randomWeights(decoder), { dtype });
  computeIn(decoder, dtype);
  return subjectOf(decoder, { ...about, dtype }, options);
}

function subjectOf(
  decoder: Decoder,
  { constants: own, ...about }: DecoderSubjectAbout & Pick<ExportDescription, 'dtype' | 'files'>,
  { maxContextLen: maxContextLength, ...options }: DecoderSubjectOptions,
): ExportSubject {
  const program: DecoderProgramOptions = { ...options, maxContextLength };
  const exported = decoderProgram(decoder, program);
  const constants = { ...exported.constants, ...own };
  const description = { ...about, ...exported, constants };
  const isOffGraph = program.cache !== 'in-graph';
  return {
    description,
    // The eager model has no cache of its own kind: it keeps keys and values in states.
    eager: isOffGraph ? inStates(decoder, program, exported) : undefined,
    cacheLengths: isOffGraph ? { forward: { before: 'past', added: 'T' } } : undefined,
    load: (parameters) => decoder.replace(parameters),
    dispose: () => decoder.dispose(),
  };
}

// What is compared has no need of more, and states are as long as the context.
const longestCompared = 4096;

function inStates(
  decoder: Decoder,
  options: DecoderProgramOptions,
  { methods: { step }, constants }: ReturnType<typeof decoderProgram>,
): ExportDescription['methods'] {
  const maxContextLength = Math.min(constants.contextLength, longestCompared);
  const inGraph = decoderProgram(decoder, { ...options, cache: 'in-graph', maxContextLength });
  // Steps of many sequences are compared where nothing comes before them.
  return { ...inGraph.methods, ...(step && { step }) };
}

/** The cache that an export's calls need. */
export const sessionOptions: SessionOptions = (constants) => {
  const parsed = decoderConstants.safeParse(constants);
  const none: ReturnType<SessionOptions> = {};
  if (!parsed.success || parsed.data.cache === 'in-graph') return none;
  const { contextLength: capacity, prefillChunk: maxWrite } = parsed.data;
  const cache = new SequenceCache({ layers: cacheLayers(parsed.data), capacity, maxWrite });
  return { forward: { cache } };
};
