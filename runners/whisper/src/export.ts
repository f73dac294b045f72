/**
 * What is exported of a Whisper: `preprocess` (samples to features), `encode` (features to states),
 * `cross_kv` (each decoder layer's keys and values of the states, kept in the session) and `decode`
 * (tokens to logits, with caches in the session; a prompt or a single step).
 */
import { mx, type MxArray } from '@mlx-runners/mlx-core';
import type { Arrays, ExportDescription, Method } from '@mlx-runners/program';
import { hannWindow, melFilters } from '@mlx-runners/speech';
import type { DecoderMemory, KeysValues, LayerMemory, Whisper } from './model.js';

const sampleRate = 16_000;
const nFft = 400;
const hopLength = 160;
// Ten minutes; longer recordings are cut before.
const mostSamples = 600 * sampleRate;

export interface WhisperExportOptions {
  /** Sequences that are decoded together. */
  batch?: number;
}

/** Methods, parameters and published constants of a model. */
export function whisperExport(
  model: Whisper,
  { batch = 1 }: WhisperExportOptions = {},
): Pick<ExportDescription, 'methods' | 'encoderMethods' | 'parameters' | 'constants'> {
  const { config } = model;
  return {
    methods: {
      preprocess: preprocess(config.num_mel_bins),
      encode: encode(model, batch),
      cross_kv: crossKeysValues(model, batch),
      decode: [
        decode(model, batch, { min: 1, max: 1 }),
        decode(model, batch, { min: 1, max: config.max_target_positions }),
      ],
    },
    encoderMethods: ['encode'],
    parameters: model.parameters(),
    constants: {
      sampleRate,
      batch,
      melBins: config.num_mel_bins,
      frames: 2 * config.max_source_positions,
      contextLength: config.max_target_positions,
      vocabularySize: config.vocab_size,
    },
  };
}

/** Samples [N] → log-mel features [N / 160, bands]: `logMelSpectrogram` on arrays. */
function preprocess(bands: number): Method {
  const filters = mx.array(melFilters(sampleRate, nFft, bands), [nFft / 2 + 1, bands]);
  const window = mx.array(hannWindow(nFft, 'periodic'));
  return {
    dimensions: { N: { min: nFft, max: mostSamples } },
    inputs: { samples: { dtype: 'float32', shape: ['N'] } },
    run: ({ samples }) => {
      const [length] = samples.shape;
      const half = nFft / 2;
      const before = samples.slice([1], [half + 1]).flip(0);
      const after = samples.slice([length - half - 1], [length - 1]).flip(0);
      const signal = mx.concatenate([before, samples, after]);
      const frames = signal.asStrided([Math.floor(length / hopLength), nFft], [hopLength, 1]);
      const power = frames.multiply(window).rfft().abs().square();
      const log = power.matmul(filters).maximum(1e-10).log10();
      return { features: log.maximum(log.max().subtract(8)).add(4).divide(4) };
    },
  };
}

function encode({ encoder, config }: Whisper, batch: number): Method {
  const { dtype } = encoder.conv1.weight;
  return {
    inputs: {
      features: { dtype, shape: [batch, 2 * config.max_source_positions, config.num_mel_bins] },
    },
    run: ({ features }) => ({ states: encoder.forward(features) }),
  };
}

/** States [B, S, d] → each layer's `cross.<layer>.keys` and `.values`, until the next call. */
function crossKeysValues({ decoder, config }: Whisper, batch: number): Method {
  const { dtype } = decoder.embed_tokens.weight;
  return {
    inputs: {
      states: { dtype, shape: [batch, config.max_source_positions, config.d_model] },
    },
    states: statesOf('cross', decoder.layers.length, dtype, crossShape(config, batch)),
    run: ({ states: encoded }, _, states) => {
      for (const [i, { encoder_attn }] of decoder.layers.entries()) {
        const { keys, values } = encoder_attn.keysValues(encoded);
        states[`cross.${i}.keys`] = keys;
        states[`cross.${i}.values`] = values;
      }
      return {};
    },
  };
}

/**
 * Token ids [B, T] after `past` others → logits [B, P, vocabulary] of P positions among them. Writes
 * keys and values to the caches from `past` on, so that decoding starts anew with past = 0.
 */
function decode(
  { decoder, config }: Whisper,
  batch: number,
  length: { min: number; max: number },
): Method {
  const { dtype } = decoder.embed_tokens.weight;
  const capacity = config.max_target_positions;
  const layers = decoder.layers.length;
  return {
    dimensions: {
      T: length,
      past: { min: 0, max: capacity - 1 },
      P: { min: 1, max: length.max },
    },
    limits: [{ size: ['+', 'past', 'T'], max: capacity }],
    inputs: {
      ids: { dtype: 'int32', shape: [batch, 'T'], below: config.vocab_size },
      positions: { dtype: 'int32', shape: ['P'], below: 'T' },
    },
    states: {
      ...statesOf('cross', layers, dtype, crossShape(config, batch)),
      ...statesOf('tokens', layers, dtype, tokensShape(config, batch)),
    },
    run: ({ ids, positions }, { past }, states) => {
      const hidden = decoder.forward(ids, new SessionMemory(states, layers, past));
      const wanted = length.max === 1 ? hidden : hidden.take(positions, 1);
      return { logits: decoder.logits(wanted) };
    },
  };
}

type Config = Whisper['config'];

function crossShape(config: Config, batch: number): number[] {
  const heads = config.decoder_attention_heads;
  return [batch, heads, config.max_source_positions, config.d_model / heads];
}

function tokensShape(config: Config, batch: number): number[] {
  const heads = config.decoder_attention_heads;
  return [batch, heads, config.max_target_positions, config.d_model / heads];
}

function statesOf(
  kind: string,
  layers: number,
  dtype: MxArray['dtype'],
  shape: number[],
): NonNullable<Method['states']> {
  const names = Array.from({ length: layers }, (_, i) => [
    `${kind}.${i}.keys`,
    `${kind}.${i}.values`,
  ]);
  return Object.fromEntries(names.flat().map((name) => [name, { dtype, shape }]));
}

/** The decoder's memory in the states of a session: of fixed capacity, written in place. */
class SessionMemory implements DecoderMemory {
  readonly length: number;
  readonly layers: readonly LayerMemory[];

  constructor(states: Arrays, layers: number, past: number) {
    this.length = past;
    this.layers = Array.from({ length: layers }, (_, i) => ({
      states: { keys: states[`cross.${i}.keys`], values: states[`cross.${i}.values`] },
      append: ({ keys, values }: KeysValues) => ({
        keys: appended(states, `tokens.${i}.keys`, keys, past),
        values: appended(states, `tokens.${i}.values`, values, past),
      }),
    }));
  }
}

/** Writes at `past` and gives what has been written up to now. */
function appended(states: Arrays, name: string, added: MxArray, past: number): MxArray {
  const [batch, heads, length, size] = added.shape;
  const end = [batch, heads, past + length, size];
  states[name] = mx.sliceUpdate(states[name], added, [0, 0, past, 0], end);
  return states[name].slice([0, 0, 0, 0], end);
}
