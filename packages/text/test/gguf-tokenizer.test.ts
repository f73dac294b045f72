import { CheckpointError } from '@mlx-runners/mlx-core/errors';
import { expectRefusal } from '@mlx-runners/test-fixtures';
import { IncrementalDecoder, Tokenizer } from '@mlx-runners/text';
import { describe, expect, it } from 'vitest';
import { byteLevelMetadata, sentencePieceMetadata, tokenLists } from './token-lists.js';

describe.each(Object.entries(tokenLists.byteLevel.ids))('pre-tokenizer %s', (name, ids) => {
  const tokenizer = Tokenizer.fromGguf(byteLevelMetadata(name));

  it.each(tokenLists.texts.map((text, i) => ({ text, expected: ids[i] })))(
    'encodes $text as the models themselves do',
    ({ text, expected }) => {
      expect(tokenizer.encode(text)).toEqual(expected);
      const back = tokenizer.decode(expected, { skipSpecialTokens: false });
      expect(back).toBe(name.startsWith('qwen') ? text.normalize('NFC') : text);
    },
  );
});

describe('a byte-level vocabulary in a GGUF file', () => {
  const [the] = Tokenizer.fromGguf(byteLevelMetadata('gpt-2')).encode('the');

  it('names its special tokens', () => {
    const metadata = byteLevelMetadata('gpt-2').set('tokenizer.ggml.eot_token_id', 1);
    const tokenizer = Tokenizer.fromGguf(metadata);
    expect(tokenizer.specialTokens).toEqual({ bos: 0, eos: 1, eot: 1 });
    expect([...tokenizer.specialIds]).toEqual([0, 1]);
    expect(tokenizer.vocabSize).toBe(tokenLists.byteLevel.tokens.length);
  });

  it('frames texts as the file says, else as models of its kind do', () => {
    const framed = (pre: string, flags: [string, unknown][] = []) => {
      const metadata = new Map([...byteLevelMetadata(pre), ...flags]);
      return Tokenizer.fromGguf(metadata).encode('the', { addSpecialTokens: true });
    };
    expect(framed('gpt-2')).toEqual([the]);
    expect(framed('llama-bpe')).toEqual([0, the]);
    expect(framed('llama-bpe', [['tokenizer.ggml.add_bos_token', false]])).toEqual([the]);
    const both: [string, unknown][] = [
      ['tokenizer.ggml.add_bos_token', true],
      ['tokenizer.ggml.add_eos_token', true],
    ];
    expect(framed('gpt-2', both)).toEqual([0, the, 1]);
  });

  it('takes a missing name for "default"', () => {
    const metadata = byteLevelMetadata('');
    metadata.delete('tokenizer.ggml.pre');
    const i = tokenLists.texts.findIndex((text) => text.startsWith('1234567890'));
    const ids = Tokenizer.fromGguf(metadata).encode(tokenLists.texts[i]);
    expect(ids).toEqual(tokenLists.byteLevel.ids.default[i]);
    expect(ids).not.toEqual(tokenLists.byteLevel.ids['gpt-2'][i]);
  });
});

describe('a SentencePiece vocabulary in a GGUF file', () => {
  const { texts, ids, decoded, tokens } = tokenLists.sentencePiece;
  const tokenizer = Tokenizer.fromGguf(sentencePieceMetadata());

  it.each(texts.map((text, i) => ({ text, i })))(
    'encodes $text as SentencePiece',
    ({ text, i }) => {
      expect(tokenizer.encode(text)).toEqual(ids[i]);
      expect(tokenizer.decode(ids[i])).toBe(decoded[i]);
      const decoder = new IncrementalDecoder(tokenizer);
      expect(ids[i].map((id) => decoder.push(id)).join('') + decoder.flush()).toBe(decoded[i]);
    },
  );

  it('puts bos before a text', () => {
    expect(tokenizer.specialTokens).toEqual({ unknown: 0, bos: 1, eos: 2 });
    const text = texts.indexOf('hello the fox');
    expect(tokenizer.encode(texts[text], { addSpecialTokens: true })).toEqual([1, ...ids[text]]);
  });

  it('keeps tokens of its own whole, and splits what is between them', () => {
    const think = tokens.indexOf('<think>');
    const [the] = tokenizer.encode('the');
    expect(tokenizer.encode('the<think>the<s>')).toEqual([the, think, the, 1]);
    expect(tokenizer.decode([the, think, 1])).toBe('the<think>');
  });

  it('puts no space before a text where the file says so', () => {
    const metadata = sentencePieceMetadata().set('tokenizer.ggml.add_space_prefix', false);
    const bare = Tokenizer.fromGguf(metadata);
    expect(bare.encode(' the')).toEqual(tokenizer.encode('the'));
    expect(bare.encode('the')).not.toEqual(tokenizer.encode('the'));
    expect(bare.decode(bare.encode(' the fox'))).toBe(' the fox');
  });

  it('encodes long texts in time that grows with them', () => {
    const text = texts.at(-1)!.repeat(200);
    const whole = tokenizer.encode(text);
    expect(tokenizer.decode(whole)).toBe(text);
  });
});

describe('a GGUF file whose tokenizer is of no use', () => {
  const damage: [string, string, unknown, RegExp][] = [
    ['no tokenizer', 'model', undefined, /has no tokenizer: tokenizer\.ggml\.model is missing/],
    ['another model', 'model', 'bert', /of type "bert"; supported are gpt2 .* and llama/],
    ['a model that is no text', 'model', 7, /model must be a string, not 7/],
    [
      'an unknown pre-tokenizer',
      'pre',
      'telepathy',
      /pre-tokenizer "telepathy"; supported are gpt-2,/,
    ],
    ['no tokens', 'tokens', undefined, /tokens is missing/],
    ['tokens that are numbers', 'tokens', [1, 2], /tokens must be a list of texts/],
    ['no merges', 'merges', undefined, /merges is missing/],
    [
      'kinds of too few tokens',
      'token_type',
      new Int32Array(3),
      /token_type must be a list of \d+ num/,
    ],
    ['kinds that are texts', 'token_type', ['a'], /token_type must be a list of \d+ numbers/],
    ['an id beyond its tokens', 'eos_token_id', 9999, /id of the eos token, 9999, must be one of/],
    ['an id that is no integer', 'eos_token_id', 1.5, /id of the eos token, 1\.5, must be/],
    [
      'bos to add and none',
      'bos_token_id',
      undefined,
      /adds a bos token to every text and has none/,
    ],
    [
      'a flag that is no flag',
      'add_bos_token',
      'yes',
      /add_bos_token must be a boolean, not "yes"/,
    ],
  ];

  it.each(damage)('is refused with %s', (_, key, value, message) => {
    const metadata = byteLevelMetadata('gpt-2').set('tokenizer.ggml.add_bos_token', true);
    if (value === undefined) metadata.delete(`tokenizer.ggml.${key}`);
    else metadata.set(`tokenizer.ggml.${key}`, value);
    let error: unknown;
    try {
      Tokenizer.fromGguf(metadata, '/a/model.gguf');
    } catch (thrown) {
      error = thrown;
    }
    expectRefusal(error, CheckpointError, '/a/model.gguf');
    expect((error as Error).message).toMatch(message);
  });

  it('is refused with pieces without scores', () => {
    const metadata = sentencePieceMetadata();
    metadata.delete('tokenizer.ggml.scores');
    expect(() => Tokenizer.fromGguf(metadata)).toThrow(/tokenizer\.ggml\.scores is missing/);
  });
});
