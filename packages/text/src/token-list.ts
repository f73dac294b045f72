/**
 * Vocabularies as GGUF and SentencePiece files have them: flat lists, one entry per id. Here they
 * become what a tokenizer.json says, so that there is one way to encode.
 */

import { CheckpointError, quoted } from '@mlx-runners/mlx-core/errors';
import { framingProcessor, type SpecialTokens } from './special-tokens.js';
import type { AddedToken } from './tokenizer-file.js';

/** Kinds of tokens, numbered as in sentencepiece_model.proto and in GGUF. */
export const TokenType = { Normal: 1, Unknown: 2, Control: 3, UserDefined: 4, Byte: 6 } as const;

export interface TokenList {
  tokens: readonly string[];
  /** Kinds of tokens (TokenType) by id; all are normal without. */
  types?: ArrayLike<number>;
  specialTokens: SpecialTokens;
  /** Whether bos goes before every text, and eos after it. */
  addBos: boolean;
  addEos: boolean;
}

/** A tokenizer.json, as far as it was made here. */
export type TokenizerJson = Record<string, unknown>;

/** @throws CheckpointError for special ids beyond the list, or tokens to add that aren't there */
export function checkTokenList(list: TokenList, source: string): void {
  const count = list.tokens.length;
  for (const [name, id] of Object.entries(list.specialTokens)) {
    if (id !== undefined && !(Number.isInteger(id) && id >= 0 && id < count)) {
      throw new CheckpointError(
        `${source}: the id of the ${name} token, ${quoted(id)}, must be one of its ${count} tokens.`,
      );
    }
  }
  for (const [name, added] of [
    ['bos', list.addBos],
    ['eos', list.addEos],
  ] as const) {
    if (added && list.specialTokens[name] === undefined) {
      throw new CheckpointError(`${source} adds a ${name} token to every text and has none.`);
    }
  }
}

/** The parts of a tokenizer.json that don't depend on how text is split. */
export function listParts(list: TokenList): {
  added_tokens: AddedToken[];
  post_processor: object | null;
} {
  const { tokens, types, specialTokens: ids, addBos, addEos } = list;
  const added = (id: number, special: boolean) => ({
    id,
    content: tokens[id],
    special,
    normalized: false,
  });
  const addedTokens: AddedToken[] = [];
  for (let id = 0; id < (types?.length ?? 0); id++) {
    const isSpecial = types![id] === TokenType.Control || types![id] === TokenType.Unknown;
    if (isSpecial || types![id] === TokenType.UserDefined) addedTokens.push(added(id, isSpecial));
  }
  const framing = {
    bos: addBos ? added(ids.bos!, true) : undefined,
    eos: addEos ? added(ids.eos!, true) : undefined,
  };
  return { added_tokens: addedTokens, post_processor: framingProcessor(framing) };
}

/** Ids by token. Without a prototype, so that every name is free. */
export function idsByToken(tokens: readonly string[]): Record<string, number> {
  const ids = Object.create(null) as Record<string, number>;
  tokens.forEach((token, id) => (ids[token] = id));
  return ids;
}

export interface PieceList extends TokenList {
  /** The higher, the earlier a piece is put together from its parts. By id. */
  scores: ArrayLike<number>;
  /** Whether a space is put before a text, as before a word within it. */
  addDummyPrefix: boolean;
}

/** The tokenizer.json of a SentencePiece model of type BPE. */
export function sentencePieceJson(list: PieceList): TokenizerJson {
  const { tokens, scores, addDummyPrefix, specialTokens } = list;
  const escape = { type: 'Replace', pattern: { String: ' ' }, content: '▁' };
  const unescape = { type: 'Replace', pattern: { String: '▁' }, content: ' ' };
  const prefix = addDummyPrefix ? [{ type: 'Prepend', prepend: '▁' }] : [];
  const strip = addDummyPrefix ? [{ type: 'Strip', content: ' ', start: 1, stop: 0 }] : [];
  const unknown = specialTokens.unknown;
  return {
    ...listParts(list),
    normalizer: { type: 'Sequence', normalizers: [...prefix, escape] },
    pre_tokenizer: null,
    decoder: {
      type: 'Sequence',
      decoders: [unescape, { type: 'ByteFallback' }, { type: 'Fuse' }, ...strip],
    },
    model: {
      type: 'BPE',
      vocab: idsByToken(tokens),
      merges: [],
      scores,
      byte_fallback: true,
      unk_token: unknown === undefined ? null : tokens[unknown],
    },
  };
}
