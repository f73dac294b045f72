import { DtypeError } from '@mlx-runners/mlx-core/errors';
import { byteLevelBytes, IncrementalDecoder, Tokenizer } from '@mlx-runners/text';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { smallTokenizer, smallTokenizers } from './small-tokenizers.js';

const byteLevel = Tokenizer.fromJson(smallTokenizer('byte_level').tokenizer);

function pieces(tokenizer: Tokenizer, ids: number[], skipSpecialTokens: boolean): string[] {
  const decoder = new IncrementalDecoder(tokenizer, { skipSpecialTokens });
  return [...ids.map((id) => decoder.push(id)), decoder.flush()];
}

/** No half of a surrogate pair; `String.isWellFormed` is not in the types of Node 20. */
function isWellFormed(text: string): boolean {
  return !/\p{Cs}/u.test(text);
}

describe.each(smallTokenizers)('streaming with $name', ({ tokenizer: json, size, decodes }) => {
  const tokenizer = Tokenizer.fromJson(json);

  it('gives the reference text in all', () => {
    for (const { ids, decoded } of decodes) {
      expect(pieces(tokenizer, ids, false).join('')).toBe(decoded);
    }
  });

  it('gives the text of the whole for any ids, never half a character', () => {
    const ids = fc.array(fc.nat(size + 20), { maxLength: 60 });
    fc.assert(
      fc.property(ids, fc.boolean(), (ids, skipSpecialTokens) => {
        const parts = pieces(tokenizer, ids, skipSpecialTokens);
        expect(parts.every(isWellFormed)).toBe(true);
        expect(parts.join('')).toBe(tokenizer.decode(ids, { skipSpecialTokens }));
      }),
      { seed: 7 },
    );
  });
});

describe('IncrementalDecoder', () => {
  it('agrees with decoding all bytes at once', () => {
    const tokenOfByte = new Map(
      Array.from({ length: byteLevel.vocabSize }, (_, id) => id)
        .filter((id) => byteLevelBytes(byteLevel.idToToken(id)!).length === 1)
        .map((id) => [byteLevelBytes(byteLevel.idToToken(id)!)[0], id]),
    );
    expect(tokenOfByte.size).toBe(256);
    const whole = new TextDecoder('utf-8', { ignoreBOM: true });
    const text = fc.string({ unit: 'grapheme', maxLength: 20 });
    const bytes = fc.oneof(
      fc.uint8Array({ maxLength: 40 }),
      text.map((text) => new TextEncoder().encode(text)),
    );
    fc.assert(
      fc.property(bytes, (bytes) => {
        const ids = Array.from(bytes, (byte) => tokenOfByte.get(byte)!);
        expect(pieces(byteLevel, ids, false).join('')).toBe(whole.decode(bytes));
      }),
      { seed: 7, numRuns: 500 },
    );
  });

  it('holds an emoji back until its last byte', () => {
    const ids = byteLevel.encode('👍');
    expect(ids.length).toBe(4);
    expect(pieces(byteLevel, ids, true)).toEqual(['', '', '', '👍', '']);
  });

  it('tells text at once that no later id can change', () => {
    const ids = byteLevel.encode('the fox');
    const parts = pieces(byteLevel, ids, true);
    expect(parts.slice(0, -1).every((part) => part !== '')).toBe(true);
    expect(parts.at(-1)).toBe('');
  });

  it('keeps a byte order mark', () => {
    expect(byteLevel.decode(byteLevel.encode('\ufeffthe'))).toBe('\ufeffthe');
  });

  it('ends an unfinished character as U+FFFD and can start anew', () => {
    const decoder = new IncrementalDecoder(byteLevel);
    const [first, second] = byteLevel.encode('👍');
    expect(decoder.push(first) + decoder.push(second)).toBe('');
    expect(decoder.flush()).toBe('\ufffd');
    expect(decoder.flush()).toBe('');
    expect(
      byteLevel
        .encode('the')
        .map((id) => decoder.push(id))
        .join(''),
    ).toBe('the');
  });

  it('drops the leading space of SentencePiece once, and again after a flush', () => {
    const tokenizer = Tokenizer.fromJson(smallTokenizer('byte_fallback').tokenizer);
    const decoder = new IncrementalDecoder(tokenizer);
    const ids = tokenizer.encode('the fox');
    for (let round = 0; round < 2; round++) {
      expect(ids.map((id) => decoder.push(id)).join('') + decoder.flush()).toBe('the fox');
    }
  });

  it('refuses what is no id', () => {
    expect(() => new IncrementalDecoder(byteLevel).push(-3)).toThrow(DtypeError);
  });
});

describe('byteLevelBytes', () => {
  it('reads the GPT-2 table', () => {
    expect(byteLevelBytes('Ġhi')).toEqual(Uint8Array.of(0x20, 0x68, 0x69));
    expect(byteLevelBytes('Ċ')).toEqual(Uint8Array.of(0x0a));
    expect(byteLevelBytes('æĹ¥')).toEqual(new TextEncoder().encode('日'));
    expect(byteLevelBytes('')).toEqual(new Uint8Array(0));
  });

  it('takes a token of other characters as UTF-8', () => {
    expect(byteLevelBytes('<|a b|>')).toEqual(new TextEncoder().encode('<|a b|>'));
  });
});
