/**
 * SentencePiece's `tokenizer.model`: a protocol buffer of type ModelProto
 * (github.com/google/sentencepiece, src/sentencepiece_model.proto).
 */

import { CheckpointError } from '@mlx-runners/mlx-core/errors';
import type { SpecialTokens } from './special-tokens.js';
import { checkTokenList, sentencePieceJson, TokenType, type TokenizerJson } from './token-list.js';

/** Numbers of the fields that are read here, and their defaults where the file leaves them out. */
const MODEL = { pieces: 1, trainer: 2, normalizer: 3 } as const;
const PIECE = { text: 1, score: 2, type: 3 } as const;
const TRAINER = { modelType: 3, unknown: 40, bos: 41, eos: 42, padding: 43 } as const;
const NORMALIZER = { rules: 2, addDummyPrefix: 3, removeExtraWhitespace: 4 } as const;
const BPE = 2;

/**
 * @returns the tokenizer.json that says the same, with bos before every text as models have it, and the
 *   ids of the special tokens
 * @throws CheckpointError for a file that is damaged, or of another type than BPE
 */
export function sentencePieceModelJson(
  bytes: Uint8Array,
  source: string,
): { json: TokenizerJson; specialTokens: SpecialTokens } {
  const wrong = (what: string) => new CheckpointError(`${source} is no usable tokenizer: ${what}.`);
  let model: Message;
  let pieces: Message[];
  let trainer: Message;
  let normalizer: Message;
  try {
    model = new Message(bytes);
    pieces = model.all(MODEL.pieces).map((field) => new Message(field));
    trainer = new Message(model.bytes(MODEL.trainer));
    normalizer = new Message(model.bytes(MODEL.normalizer));
  } catch (cause) {
    throw new CheckpointError(`${source} is not a SentencePiece model, or damaged.`, { cause });
  }
  if (pieces.length === 0) throw wrong('it has no pieces');
  if (trainer.integer(TRAINER.modelType, 1) !== BPE) {
    throw wrong('its SentencePiece model is not of type BPE, the only one supported');
  }
  if (
    normalizer.bytes(NORMALIZER.rules).length > 0 ||
    normalizer.integer(NORMALIZER.removeExtraWhitespace, 1) !== 0
  ) {
    throw wrong('it normalises text, which is not supported in SentencePiece models');
  }
  const types = pieces.map((piece) => piece.integer(PIECE.type, TokenType.Normal));
  // Ids of -1 say that there is none.
  const ids = {
    unknown: trainer.integer(TRAINER.unknown, 0),
    bos: trainer.integer(TRAINER.bos, 1),
    eos: trainer.integer(TRAINER.eos, 2),
    padding: trainer.integer(TRAINER.padding, -1),
  };
  const specialTokens: SpecialTokens = Object.fromEntries(
    Object.entries(ids).filter(([, id]) => id !== -1),
  );
  const list = {
    tokens: pieces.map((piece) => piece.text(PIECE.text)),
    scores: pieces.map((piece) => piece.float(PIECE.score)),
    types,
    specialTokens,
    addBos: specialTokens.bos !== undefined,
    addEos: false,
    addDummyPrefix: normalizer.integer(NORMALIZER.addDummyPrefix, 1) !== 0,
  };
  checkTokenList(list, source);
  return { json: sentencePieceJson(list), specialTokens };
}

/** The fields of one message of a protocol buffer, by number; of a number's fields the last one counts. */
class Message {
  private readonly fields = new Map<number, (number | Uint8Array)[]>();

  constructor(bytes: Uint8Array) {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    let at = 0;
    const varint = (): number => {
      // Integers of 64 bits come as ten bytes where they are negative: their low half is enough.
      let low = 0;
      for (let shift = 0; ; shift += 7) {
        const byte = view.getUint8(at++);
        if (shift < 32) low |= (byte & 0x7f) << shift;
        if (byte < 0x80) return low;
        if (shift > 63) throw new RangeError('A number does not end.');
      }
    };
    const skip = (count: number): number => {
      if (count < 0 || at + count > bytes.length)
        throw new RangeError('A field ends after the file.');
      at += count;
      return at - count;
    };
    while (at < bytes.length) {
      const tag = varint();
      let value: number | Uint8Array;
      switch (tag & 7) {
        case 0:
          value = varint();
          break;
        case 1:
          value = view.getFloat64(skip(8), true);
          break;
        case 2: {
          const length = varint();
          const start = skip(length);
          value = bytes.subarray(start, start + length);
          break;
        }
        case 5:
          value = view.getFloat32(skip(4), true);
          break;
        default:
          throw new RangeError('A field has an unknown type.');
      }
      const number = tag >>> 3;
      const values = this.fields.get(number);
      if (values) values.push(value);
      else this.fields.set(number, [value]);
    }
  }

  all(number: number): Uint8Array[] {
    return (this.fields.get(number) ?? []).filter((value) => typeof value !== 'number');
  }

  bytes(number: number): Uint8Array {
    return this.all(number).at(-1) ?? new Uint8Array(0);
  }

  text(number: number): string {
    return new TextDecoder('utf-8', { ignoreBOM: true }).decode(this.bytes(number));
  }

  float(number: number): number {
    return this.integer(number, 0);
  }

  integer(number: number, fallback: number): number {
    const value = this.fields.get(number)?.at(-1);
    return typeof value === 'number' ? value : fallback;
  }
}
