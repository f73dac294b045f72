/**
 * What all decoder-only language models have in common: a table of embeddings, layers, a norm, and a
 * projection to logits. Fields are named as in Hugging Face's checkpoints; a family (llama.ts …)
 * brings its layers.
 *
 * Shapes: B sequences, T tokens, d width, V vocabulary.
 */
import { UsageError, type Dtype, type MxArray } from '@mlx-runners/mlx-core';
import {
  Embedding,
  Linear,
  Module,
  RmsNorm,
  type EmbeddingLayer,
  type LinearLayer,
} from '@mlx-runners/nn';
import { isTied } from './config.js';
import type { DecoderCache, LayerCache, LayerLayout } from './kv-cache.js';
import type { Rope } from './rope.js';

/** Where in their sequences the tokens stand: the first one's position, or each sequence's, int32 [B]. */
export type Position = number | MxArray;

export interface DecoderInput {
  /** Token ids [B, T]. */
  ids?: MxArray;
  /** Embeddings [B, T, d] in the place of those of `ids`. */
  embeds?: MxArray;
  /** The cache's length unless given. */
  position?: Position;
  cache: DecoderCache;
  /**
   * Whose logits are wanted: all tokens', the last one's of each sequence, or those of rows int32 [P], which count
   * the tokens of all sequences one after another. All unless given.
   */
  logitsToKeep?: 'all' | 'last' | MxArray;
  /** Layers, from 0, whose results are wanted too. */
  taps?: readonly number[];
}

export interface DecoderOutput {
  /** [B, P, V] of P wanted tokens; of rows [1, P, V], as is `hidden`. */
  logits: MxArray;
  /** [B, P, d] after the last norm. */
  hidden: MxArray;
  /** Results [B, T, d] of the layers that `taps` names, in its order. */
  taps: MxArray[];
}

export interface DecoderLayer extends Module {
  /** x [B, T, d] → [B, T, d] */
  forward(x: MxArray, position: Position, cache: LayerCache): MxArray;
}

export interface DecoderSizes {
  model_type: string;
  max_position_embeddings: number;
  vocab_size: number;
  hidden_size: number;
  rms_norm_eps: number;
  tie_word_embeddings?: boolean | null | undefined;
}

class DecoderStack extends Module {
  embed_tokens: EmbeddingLayer;
  layers: DecoderLayer[];
  norm: RmsNorm;

  constructor({ vocab_size, hidden_size, rms_norm_eps }: DecoderSizes, layers: DecoderLayer[]) {
    super();
    this.embed_tokens = new Embedding(vocab_size, hidden_size);
    this.layers = layers;
    this.norm = new RmsNorm(hidden_size, rms_norm_eps);
  }
}

export abstract class Decoder extends Module {
  model: DecoderStack;
  /** Where the embeddings are not used in its place. */
  lm_head: LinearLayer | undefined;
  /** Of activations; see `computeIn`. */
  dtype: Dtype = 'float32';
  /** What each layer needs of a cache. */
  readonly layouts: readonly LayerLayout[];
  /** The most tokens that a sequence may have. */
  readonly contextLength: number;
  readonly vocabularySize: number;
  readonly #ropes: readonly Rope[];

  /** @param ropes what the layers share, disposed with the decoder */
  protected constructor(
    sizes: DecoderSizes,
    layers: DecoderLayer[],
    layouts: readonly LayerLayout[],
    ropes: readonly Rope[],
  ) {
    super();
    this.layouts = layouts;
    this.contextLength = sizes.max_position_embeddings;
    this.vocabularySize = sizes.vocab_size;
    this.model = new DecoderStack(sizes, layers);
    if (!isTied(sizes)) {
      this.lm_head = new Linear(sizes.hidden_size, sizes.vocab_size, { bias: false });
    }
    this.#ropes = ropes;
  }

  /** Token ids [B, T] → [B, T, d] */
  embed(ids: MxArray): MxArray {
    return inDtype(this.model.embed_tokens.forward(ids), this.dtype);
  }

  /** Normed hidden states [..., d] → [..., V] */
  project(hidden: MxArray): MxArray {
    return this.lm_head?.forward(hidden) ?? this.model.embed_tokens.asLinear(hidden);
  }

  /** Continues the sequences in the cache. */
  forward({ ids, embeds, position, cache, logitsToKeep, taps = [] }: DecoderInput): DecoderOutput {
    let x = embeds ?? (ids && this.embed(ids));
    if (!x) throw new UsageError('A decoder needs ids or embeds.');
    const start = position ?? cache.length;
    const tapped = new Map<number, MxArray>();
    for (const [i, layer] of this.model.layers.entries()) {
      x = layer.forward(x, start, cache.layers[i]);
      if (taps.includes(i)) tapped.set(i, x);
    }
    const hidden = this.model.norm.forward(keptRows(x, logitsToKeep));
    const wanted = taps.map((i) => tapped.get(i) ?? noLayer(i, this.model.layers.length));
    return { logits: this.project(hidden), hidden, taps: wanted };
  }

  override dispose(): void {
    super.dispose();
    for (const rope of this.#ropes) rope.dispose();
  }
}

function keptRows(x: MxArray, kept: DecoderInput['logitsToKeep'] = 'all'): MxArray {
  if (kept === 'all') return x;
  const [batch, length, width] = x.shape;
  if (kept === 'last') return x.slice([0, length - 1, 0], [batch, length, width]);
  return x.reshape([1, -1, width]).take(kept, 1);
}

function inDtype(x: MxArray, dtype: Dtype): MxArray {
  return x.dtype === dtype ? x : x.astype(dtype);
}

function noLayer(index: number, count: number): never {
  throw new UsageError(`There is no layer ${index} to tap; there are ${count}, from 0.`);
}
