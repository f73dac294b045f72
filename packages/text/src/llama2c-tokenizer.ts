/**
 * llama2.c's `tokenizer.bin`: the pieces and scores of a SentencePiece BPE model (github.com/karpathy/llama2.c,
 * tokenizer.py). Little-endian; per token a float32 score, a uint32 count of bytes, the bytes. Before
 * them stands the longest count of bytes, and in files that ExecuTorch's converter made, before that
 * the vocabulary's size and the ids of bos and eos.
 */

import { CheckpointError } from '@mlx-runners/mlx-core/errors';
import type { SpecialTokens } from './special-tokens.js';
import { checkTokenList, sentencePieceJson, TokenType, type TokenizerJson } from './token-list.js';

interface Pieces {
  tokens: string[];
  scores: number[];
}

/** What Llama 2's vocabulary has, which the shorter header doesn't tell. */
const LLAMA2: SpecialTokens = { unknown: 0, bos: 1, eos: 2 };

/** @throws CheckpointError for what is not such a file */
export function llama2cTokenizerJson(
  bytes: Uint8Array,
  source: string,
): { json: TokenizerJson; specialTokens: SpecialTokens } {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const long = readPieces(bytes, 16);
  const isLong = bytes.length >= 16 && long?.tokens.length === view.getUint32(0, true);
  const pieces = isLong ? long : readPieces(bytes, 4);
  if (!pieces || pieces.tokens.length === 0) {
    throw new CheckpointError(`${source} is not a tokenizer.bin of llama2.c, or damaged.`);
  }
  const specialTokens = isLong
    ? { ...LLAMA2, bos: view.getUint32(4, true), eos: view.getUint32(8, true) }
    : LLAMA2;
  const { unknown, bos, eos } = specialTokens;
  const types = pieces.tokens.map(
    (token) => (isByte(token) ? TokenType.Byte : TokenType.Normal) as number,
  );
  const list = {
    scores: pieces.scores,
    tokens: pieces.tokens.map((token, id) => {
      // Some files write these with line breaks around them, for printing.
      if (id === bos || id === eos) return token.trim();
      return isByte(token) ? token : token.replaceAll(' ', '▁');
    }),
    types,
    specialTokens,
    addBos: true,
    addEos: false,
    addDummyPrefix: true,
  };
  checkTokenList(list, source);
  types[unknown!] = TokenType.Unknown;
  types[bos!] = types[eos!] = TokenType.Control;
  return { json: sentencePieceJson(list), specialTokens };
}

/** All pieces after the header; nothing where the bytes don't end with one. */
function readPieces(bytes: Uint8Array, header: number): Pieces | undefined {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const text = new TextDecoder('utf-8', { ignoreBOM: true });
  const pieces: Pieces = { tokens: [], scores: [] };
  let at = header;
  while (at + 8 <= bytes.length) {
    const start = at + 8;
    const end = start + view.getUint32(at + 4, true);
    if (end > bytes.length) return undefined;
    pieces.scores.push(view.getFloat32(at, true));
    pieces.tokens.push(text.decode(bytes.subarray(start, end)));
    at = end;
  }
  return at === bytes.length ? pieces : undefined;
}

function isByte(token: string): boolean {
  return /^<0x[0-9A-F]{2}>$/.test(token);
}
