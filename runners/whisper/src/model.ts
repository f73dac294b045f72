/**
 * Whisper (Radford et al. 2022): an encoder of 30 s of log-mel frames, and a decoder of text tokens
 * that attends to it. Follows openai/whisper `whisper/model.py`; fields are named as in
 * Hugging Face's checkpoints.
 *
 * What is unusual: pre-norm blocks with biases everywhere but in the keys' projection; exact GELU;
 * positions are sinusoids in the encoder and learned in the decoder, both stored in the checkpoint;
 * the output projection is the token embedding.
 *
 * Shapes: B batch, F mel frames, S = F / 2 encoder states, T tokens, H heads, D width of a head,
 * d = H · D.
 */
import { mx, type MxArray } from '@mlx-runners/mlx-core';
import {
  attention,
  Conv1d,
  Embedding,
  LayerNorm,
  Linear,
  mergeHeads,
  Module,
  splitHeads,
} from '@mlx-runners/nn';
import type { WhisperConfig } from './config.js';
import { EagerDecoding } from './eager-decoding.js';
import type { AudioWindow, Decoding, SpeechNetwork } from './network.js';

/** Keys and values of one attention, [B, H, length, D] each. */
export interface KeysValues {
  keys: MxArray;
  values: MxArray;
}

/** What one decoder layer remembers: of the encoder's states, and of the tokens so far. */
export interface LayerMemory {
  readonly states: KeysValues;
  /** Adds the tokens' keys and values, and gives those of all tokens. */
  append(added: KeysValues): KeysValues;
}

/** What the decoder remembers of the sequences that it continues. */
export interface DecoderMemory {
  /** Number of tokens in it. */
  readonly length: number;
  readonly layers: readonly LayerMemory[];
}

class WhisperAttention extends Module {
  k_proj: Linear;
  v_proj: Linear;
  q_proj: Linear;
  out_proj: Linear;
  readonly heads: number;

  constructor(width: number, heads: number) {
    super();
    this.k_proj = new Linear(width, width, { bias: false });
    this.v_proj = new Linear(width, width);
    this.q_proj = new Linear(width, width);
    this.out_proj = new Linear(width, width);
    this.heads = heads;
  }

  /** x [B, length, d] */
  keysValues(x: MxArray): KeysValues {
    return {
      keys: splitHeads(this.k_proj.forward(x), this.heads),
      values: splitHeads(this.v_proj.forward(x), this.heads),
    };
  }

  /** x [B, T, d] → [B, T, d] */
  forward(x: MxArray, { keys, values }: KeysValues, causal = false): MxArray {
    const queries = splitHeads(this.q_proj.forward(x), this.heads);
    return this.out_proj.forward(mergeHeads(attention(queries, keys, values, { causal })));
  }

  /** Scaled scores before the softmax, [B, H, T, length]. */
  scores(x: MxArray, { keys }: KeysValues): MxArray {
    const queries = splitHeads(this.q_proj.forward(x), this.heads);
    return queries.multiply(queries.shape[3] ** -0.5).matmul(keys.swapaxes(-1, -2));
  }
}

class WhisperEncoderLayer extends Module {
  self_attn: WhisperAttention;
  self_attn_layer_norm: LayerNorm;
  fc1: Linear;
  fc2: Linear;
  final_layer_norm: LayerNorm;

  constructor(width: number, heads: number, ffn: number) {
    super();
    this.self_attn = new WhisperAttention(width, heads);
    this.self_attn_layer_norm = new LayerNorm(width);
    this.fc1 = new Linear(width, ffn);
    this.fc2 = new Linear(ffn, width);
    this.final_layer_norm = new LayerNorm(width);
  }

  /** x [B, S, d] → [B, S, d] */
  forward(x: MxArray): MxArray {
    const normed = this.self_attn_layer_norm.forward(x);
    x = x.add(this.self_attn.forward(normed, this.self_attn.keysValues(normed)));
    return x.add(this.fc2.forward(this.fc1.forward(this.final_layer_norm.forward(x)).gelu()));
  }
}

export class WhisperEncoder extends Module {
  conv1: Conv1d;
  conv2: Conv1d;
  embed_positions: Embedding;
  layers: WhisperEncoderLayer[];
  layer_norm: LayerNorm;

  constructor(config: WhisperConfig) {
    super();
    const { d_model, num_mel_bins, encoder_attention_heads, encoder_ffn_dim } = config;
    this.conv1 = new Conv1d(num_mel_bins, d_model, 3, { padding: 1 });
    this.conv2 = new Conv1d(d_model, d_model, 3, { stride: 2, padding: 1 });
    this.embed_positions = new Embedding(config.max_source_positions, d_model);
    this.layers = Array.from(
      { length: config.encoder_layers },
      () => new WhisperEncoderLayer(d_model, encoder_attention_heads, encoder_ffn_dim),
    );
    this.layer_norm = new LayerNorm(d_model);
  }

  /** Log-mel features [B, F, mels], F = 2 · max_source_positions → states [B, S, d] */
  forward(features: MxArray): MxArray {
    let x = this.conv1.forward(features).gelu();
    x = this.conv2.forward(x).gelu();
    x = x.add(this.embed_positions.weight);
    for (const layer of this.layers) x = layer.forward(x);
    return this.layer_norm.forward(x);
  }
}

class WhisperDecoderLayer extends Module {
  self_attn: WhisperAttention;
  self_attn_layer_norm: LayerNorm;
  encoder_attn: WhisperAttention;
  encoder_attn_layer_norm: LayerNorm;
  fc1: Linear;
  fc2: Linear;
  final_layer_norm: LayerNorm;

  constructor(width: number, heads: number, ffn: number) {
    super();
    this.self_attn = new WhisperAttention(width, heads);
    this.self_attn_layer_norm = new LayerNorm(width);
    this.encoder_attn = new WhisperAttention(width, heads);
    this.encoder_attn_layer_norm = new LayerNorm(width);
    this.fc1 = new Linear(width, ffn);
    this.fc2 = new Linear(ffn, width);
    this.final_layer_norm = new LayerNorm(width);
  }

  /** x [B, T, d] → [B, T, d]; the tokens' keys and values are added to the cache. */
  forward(x: MxArray, cache: LayerMemory, scores?: MxArray[]): MxArray {
    let normed = this.self_attn_layer_norm.forward(x);
    const past = cache.append(this.self_attn.keysValues(normed));
    x = x.add(this.self_attn.forward(normed, past, true));
    normed = this.encoder_attn_layer_norm.forward(x);
    scores?.push(this.encoder_attn.scores(normed, cache.states));
    x = x.add(this.encoder_attn.forward(normed, cache.states));
    return x.add(this.fc2.forward(this.fc1.forward(this.final_layer_norm.forward(x)).gelu()));
  }
}

export class WhisperDecoder extends Module {
  embed_tokens: Embedding;
  embed_positions: Embedding;
  layers: WhisperDecoderLayer[];
  layer_norm: LayerNorm;

  constructor(config: WhisperConfig) {
    super();
    const { d_model, vocab_size, decoder_attention_heads, decoder_ffn_dim } = config;
    this.embed_tokens = new Embedding(vocab_size, d_model);
    this.embed_positions = new Embedding(config.max_target_positions, d_model);
    this.layers = Array.from(
      { length: config.decoder_layers },
      () => new WhisperDecoderLayer(d_model, decoder_attention_heads, decoder_ffn_dim),
    );
    this.layer_norm = new LayerNorm(d_model);
  }

  /**
   * Continues the sequences in the cache.
   *
   * @param ids [B, T] token ids
   * @param scores when given, receives each layer's scaled cross-attention scores [B, H, T, S]
   * @returns hidden states [B, T, d]; see `logits`
   */
  forward(ids: MxArray, cache: DecoderMemory, scores?: MxArray[]): MxArray {
    const [, length] = ids.shape;
    const past = cache.length;
    const { weight: positions } = this.embed_positions;
    let x = this.embed_tokens
      .forward(ids)
      .add(positions.slice([past, 0], [past + length, positions.shape[1]]));
    for (const [i, layer] of this.layers.entries()) x = layer.forward(x, cache.layers[i], scores);
    return this.layer_norm.forward(x);
  }

  /** Hidden states [..., d] → logits [..., vocabulary] */
  logits(hidden: MxArray): MxArray {
    return this.embed_tokens.asLinear(hidden);
  }
}

/** One layer's keys and values: of the encoder's states, and of the tokens so far. */
class LayerCache implements LayerMemory {
  states: KeysValues;
  tokens: KeysValues | undefined;

  constructor(states: KeysValues) {
    this.states = states;
  }

  append(added: KeysValues): KeysValues {
    const past = this.tokens;
    return this.replaceTokens(
      past
        ? {
            keys: mx.concatenate([past.keys, added.keys], 2),
            values: mx.concatenate([past.values, added.values], 2),
          }
        : added,
    );
  }

  replaceTokens({ keys, values }: KeysValues): KeysValues {
    this.disposeTokens();
    // They outlive the scope of the step that makes them.
    this.tokens = { keys: mx.keep(keys), values: mx.keep(values) };
    return this.tokens;
  }

  disposeTokens(): void {
    this.tokens?.keys.dispose();
    this.tokens?.values.dispose();
  }
}

/** What the decoder remembers of B sequences; to be disposed before the window that it is of. */
export class DecoderCache implements DecoderMemory {
  readonly layers: readonly LayerCache[];
  readonly #views: MxArray[] = [];

  /** @internal Use `EncodedWindow.cache`. */
  constructor(states: readonly KeysValues[]) {
    this.layers = states.map((each) => new LayerCache(each));
  }

  /** Number of tokens in it. */
  get length(): number {
    return this.layers[0].tokens?.keys.shape[2] ?? 0;
  }

  /** Turns the cache of one sequence into that of `count` equal ones. */
  repeat(count: number): void {
    // A view: all sequences read the same memory of the encoder's states.
    const view = (x: MxArray): MxArray => {
      const broadcast = mx.keep(x.broadcastTo([count, ...x.shape.slice(1)]));
      this.#views.push(broadcast);
      return broadcast;
    };
    for (const layer of this.layers) {
      const { states, tokens } = layer;
      layer.states = { keys: view(states.keys), values: view(states.values) };
      if (tokens) {
        layer.replaceTokens({
          keys: mx.repeat(tokens.keys, count, 0),
          values: mx.repeat(tokens.values, count, 0),
        });
      }
    }
  }

  [Symbol.dispose](): void {
    for (const layer of this.layers) layer.disposeTokens();
    for (const view of this.#views) view.dispose();
  }
}

/**
 * Audio as the decoder reads it: each layer's keys and values of the encoder's states, computed once
 * for any number of decodings.
 */
export class EncodedWindow implements AudioWindow {
  readonly #crossKeysValues: readonly KeysValues[];
  readonly #decoder: WhisperDecoder;

  /** @param states the encoder's output [B, S, d]; not needed any more afterwards */
  constructor(decoder: WhisperDecoder, states: MxArray) {
    this.#decoder = decoder;
    this.#crossKeysValues = mx.tidy(() =>
      decoder.layers.map((layer) => layer.encoder_attn.keysValues(states)),
    );
  }

  /** An empty cache for B sequences. */
  cache(): DecoderCache {
    return new DecoderCache(this.#crossKeysValues);
  }

  decode(): Decoding {
    return new EagerDecoding(this.#decoder, this.cache());
  }

  [Symbol.dispose](): void {
    for (const { keys, values } of this.#crossKeysValues) {
      keys.dispose();
      values.dispose();
    }
  }
}

export class Whisper extends Module implements SpeechNetwork {
  encoder: WhisperEncoder;
  decoder: WhisperDecoder;
  readonly config: WhisperConfig;

  constructor(config: WhisperConfig) {
    super();
    this.config = config;
    this.encoder = new WhisperEncoder(config);
    this.decoder = new WhisperDecoder(config);
  }

  encode(features: MxArray): Promise<AudioWindow> {
    const { dtype } = this.encoder.conv1.weight;
    using states = mx.tidy(() => this.encoder.forward(features.astype(dtype)));
    return Promise.resolve(new EncodedWindow(this.decoder, states));
  }
}
