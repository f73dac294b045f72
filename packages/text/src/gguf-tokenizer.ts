/** Tokenizers out of the metadata of a GGUF file. */

import { CheckpointError, printable, quoted } from '@mlx-runners/mlx-core/errors';
import { ggufPreTokenizer, ggufPreTokenizerNames } from './gguf-pre-tokenizers.js';
import type { SpecialTokens } from './special-tokens.js';
import {
  checkTokenList,
  idsByToken,
  listParts,
  sentencePieceJson,
  type TokenizerJson,
  type TokenList,
} from './token-list.js';

/** The metadata of a GGUF file, as `mx.loadGguf` gives them. */
export type GgufMetadata = ReadonlyMap<string, unknown>;

const SPECIAL_TOKEN_KEYS: Readonly<Record<keyof SpecialTokens, string>> = {
  bos: 'bos_token_id',
  eos: 'eos_token_id',
  eot: 'eot_token_id',
  eom: 'eom_token_id',
  unknown: 'unknown_token_id',
  padding: 'padding_token_id',
};

/** What llama.cpp takes where a SentencePiece vocabulary doesn't say. */
const SENTENCEPIECE_DEFAULTS: SpecialTokens = { unknown: 0, bos: 1, eos: 2 };

/**
 * @returns the tokenizer.json that says the same, and the ids of the special tokens
 * @throws CheckpointError when there is no tokenizer, or it is of a kind that is not supported
 */
export function ggufTokenizerJson(
  metadata: GgufMetadata,
  source: string,
): { json: TokenizerJson; specialTokens: SpecialTokens } {
  const reader = new MetadataReader(metadata, source);
  const model = reader.optional('model', 'string');
  switch (model) {
    case 'gpt2':
      return byteLevelBpe(reader);
    case 'llama':
      return sentencePiece(reader);
    case undefined:
      throw new CheckpointError(`${source} has no tokenizer: tokenizer.ggml.model is missing.`);
    default:
      throw new CheckpointError(
        `${source} has a tokenizer of type ${quoted(model)}; supported are gpt2 (byte-level BPE) ` +
          'and llama (SentencePiece BPE).',
      );
  }
}

function byteLevelBpe(reader: MetadataReader) {
  const name = reader.optional('pre', 'string') ?? 'default';
  const kind = ggufPreTokenizer(name);
  if (!kind) {
    throw new CheckpointError(
      `${reader.source} has the pre-tokenizer ${quoted(name)}; supported are ` +
        `${ggufPreTokenizerNames.join(', ')}.`,
    );
  }
  const list = reader.tokenList({ addBos: kind.addsBos ?? false });
  const json: TokenizerJson = {
    ...listParts(list),
    normalizer: kind.normalizer ?? null,
    pre_tokenizer: kind.preTokenizer,
    decoder: { type: 'ByteLevel' },
    model: {
      type: 'BPE',
      vocab: idsByToken(list.tokens),
      merges: reader.texts('merges'),
      ignore_merges: kind.ignoresMerges ?? false,
    },
  };
  return { json, specialTokens: list.specialTokens };
}

function sentencePiece(reader: MetadataReader) {
  const list = reader.tokenList({ addBos: true, specialTokens: SENTENCEPIECE_DEFAULTS });
  const json = sentencePieceJson({
    ...(reader.isGemma ? inGemmasOrder(list) : { ...list, scores: reader.scores(list.tokens) }),
    addDummyPrefix: reader.optional('add_space_prefix', 'boolean') ?? true,
  });
  return { json, specialTokens: list.specialTokens };
}

/**
 * Gemma's pieces are put together in the order of their ids, which the scores don't tell; its runs of
 * spaces are pieces like any other, which the file writes as spaces and not as their escape.
 */
function inGemmasOrder(list: TokenList) {
  const tokens = list.tokens.map((token) =>
    /^ {2,}$/.test(token) ? '▁'.repeat(token.length) : token,
  );
  const types = Array.from(list.types ?? [], (type, id) => (/^▁+$/.test(tokens[id]) ? 1 : type));
  return { ...list, tokens, types, scores: Float64Array.from(tokens, (_, id) => -id) };
}

/** Reads `tokenizer.ggml.*` with the types that they have to be of. */
class MetadataReader {
  readonly source: string;
  private readonly metadata: GgufMetadata;

  constructor(metadata: GgufMetadata, source: string) {
    this.metadata = metadata;
    this.source = source;
  }

  get isGemma(): boolean {
    return String(this.metadata.get('general.architecture')).startsWith('gemma');
  }

  tokenList(defaults: { addBos: boolean; specialTokens?: SpecialTokens }): TokenList {
    const tokens = this.texts('tokens');
    const list = {
      tokens,
      types: this.numbers('token_type', tokens.length),
      specialTokens: this.specialTokens(defaults.specialTokens ?? {}, tokens.length),
      addBos: this.optional('add_bos_token', 'boolean') ?? defaults.addBos,
      addEos: this.optional('add_eos_token', 'boolean') ?? false,
    };
    checkTokenList(list, this.source);
    return list;
  }

  private specialTokens(defaults: SpecialTokens, count: number): SpecialTokens {
    const ids: SpecialTokens = {};
    for (const [name, key] of Object.entries(SPECIAL_TOKEN_KEYS) as [
      keyof SpecialTokens,
      string,
    ][]) {
      const fallback = defaults[name];
      const id =
        this.optional(key, 'number') ??
        (fallback !== undefined && fallback < count ? fallback : undefined);
      if (id !== undefined) ids[name] = id;
    }
    return ids;
  }

  scores(tokens: readonly string[]): ArrayLike<number> {
    const scores = this.numbers('scores', tokens.length);
    if (!scores) throw this.wrong('scores', 'is missing');
    return scores;
  }

  texts(key: string): string[] {
    const value = this.value(key);
    if (value === undefined) throw this.wrong(key, 'is missing');
    if (!Array.isArray(value) || !value.every((text) => typeof text === 'string')) {
      throw this.wrong(key, 'must be a list of texts');
    }
    return value;
  }

  private numbers(key: string, count: number): ArrayLike<number> | undefined {
    const value = this.value(key);
    if (value === undefined) return undefined;
    const isNumbers =
      ArrayBuffer.isView(value) &&
      !(value instanceof BigInt64Array || value instanceof BigUint64Array);
    const numbers = value as ArrayLike<number>;
    if (!isNumbers || numbers.length !== count) {
      throw this.wrong(key, `must be a list of ${count} numbers, one per token`);
    }
    return numbers;
  }

  optional(key: string, type: 'string'): string | undefined;
  optional(key: string, type: 'boolean'): boolean | undefined;
  optional(key: string, type: 'number'): number | undefined;
  optional(key: string, type: string): unknown {
    const value = this.value(key);
    if (value === undefined || typeof value === type) return value;
    throw this.wrong(key, `must be a ${type}, not ${quoted(value)}`);
  }

  private value(key: string): unknown {
    return this.metadata.get(`tokenizer.ggml.${key}`);
  }

  private wrong(key: string, what: string): CheckpointError {
    return new CheckpointError(`${printable(this.source)}: tokenizer.ggml.${key} ${what}.`);
  }
}
