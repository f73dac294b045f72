import { CheckpointError, DtypeError } from '@mlx-runners/mlx-core/errors';
import { expectRefusal } from '@mlx-runners/test-fixtures';
import { loadTokenizer, Tokenizer } from '@mlx-runners/text';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { smallTokenizer, smallTokenizers } from './small-tokenizers.js';

describe.each(smallTokenizers)('$name, as the Rust library has it', (reference) => {
  const tokenizer = Tokenizer.fromJson(reference.tokenizer);

  it.each(reference.cases)('encodes $text', ({ text, ids, ids_special }) => {
    expect(tokenizer.encode(text)).toEqual(ids);
    expect(tokenizer.encode(text, { addSpecialTokens: true })).toEqual(ids_special);
  });

  it('decodes texts and random ids', () => {
    for (const { ids, decoded, decoded_skip } of reference.decodes) {
      expect(tokenizer.decode(ids, { skipSpecialTokens: false })).toBe(decoded);
      expect(tokenizer.decode(ids)).toBe(decoded_skip);
    }
  });

  it('has as many tokens', () => {
    expect(tokenizer.vocabSize).toBe(reference.size);
  });
});

describe('Tokenizer', () => {
  const { tokenizer: json } = smallTokenizer('byte_level');
  const tokenizer = Tokenizer.fromJson(json);

  it('maps tokens to ids and back', () => {
    const id = tokenizer.tokenToId('<|end|>')!;
    expect(tokenizer.idToToken(id)).toBe('<|end|>');
    expect(tokenizer.tokenToId('no such token')).toBeUndefined();
    expect(tokenizer.idToToken(1e6)).toBeUndefined();
  });

  it('knows which ids are special', () => {
    expect([...tokenizer.specialIds].map((id) => tokenizer.idToToken(id))).toEqual([
      '<|start|>',
      '<|end|>',
    ]);
  });

  it('keeps spaces before punctuation', () => {
    for (const text of ['! ! !', "it 's , no ?"]) {
      expect(tokenizer.decode(tokenizer.encode(text))).toBe(text);
    }
  });

  it('takes decomposed characters as composed ones where the file says so', () => {
    const { tokenizer: json } = smallTokenizer('byte_level');
    const composing = Tokenizer.fromJson({ ...json, normalizer: { type: 'NFC' } });
    expect(composing.encode('pin\u0303a')).toEqual(tokenizer.encode('pi\u00f1a'));
    expect(tokenizer.encode('pin\u0303a')).not.toEqual(tokenizer.encode('pi\u00f1a'));
  });

  it('takes typed arrays, and nothing at all', () => {
    expect(tokenizer.decode(Int32Array.from(tokenizer.encode('fox')))).toBe('fox');
    expect(tokenizer.decode([])).toBe('');
  });

  it('gives no text for ids beyond the vocabulary', () => {
    expect(tokenizer.decode([...tokenizer.encode('fox'), 1_000_000])).toBe('fox');
  });

  it.each([-1, 1.5, Number.NaN])('refuses the id %s', (id) => {
    expect(() => tokenizer.decode([id])).toThrow(DtypeError);
  });

  it('encodes a lone surrogate as U+FFFD', () => {
    expect(tokenizer.decode(tokenizer.encode('a\ud800b'))).toBe('a\ufffdb');
  });

  it('does without the parts that a file may leave out', () => {
    const { model, decoder, pre_tokenizer } = json;
    const sparse = Tokenizer.fromJson({ model, decoder, pre_tokenizer });
    expect(sparse.decode(sparse.encode('the fox'))).toBe('the fox');
    expect(sparse.specialIds.size).toBe(0);
  });

  it.each([
    ['nothing', null],
    ['a list', []],
    ['no model', {}],
    ['no vocabulary', { model: { type: 'BPE', merges: [] } }],
    ['no merges', { model: { type: 'BPE', vocab: {} } }],
    ['ids that are texts', { model: { type: 'BPE', merges: [], vocab: { a: '0' } } }],
    ['a bad added token', { ...json, added_tokens: [{ id: 1 }] }],
    ['an unknown pre-tokenizer', { ...json, pre_tokenizer: { type: 'Telepathy' } }],
    ['an unknown normalizer', { ...json, normalizer: { type: 'Telepathy' } }],
    ['an unsupported decoder', { ...json, decoder: { type: 'CTC' } }],
  ])('refuses a tokenizer.json with %s', (_, broken) => {
    expect(() => Tokenizer.fromJson(broken)).toThrow(CheckpointError);
  });

  const sequence = (parts: unknown) => ({ type: 'Sequence', pretokenizers: parts });
  const split = (pattern: unknown) => ({ type: 'Split', pattern, behavior: 'Isolated' });
  const replace = { type: 'Replace', pattern: { String: 'a' }, content: 'aa' };
  const repeat = Array(5000).fill({ Sequence: { id: 'A', type_id: 0 } });
  const addsUnknown = [{ SpecialToken: { id: '<no such token>', type_id: 0 } }];
  let deep: object = { type: 'Lowercase' };
  for (let i = 0; i < 5000; i++) deep = { type: 'Sequence', normalizers: [deep] };

  it.each([
    ['model', /model of type "BPF"; known are BPE/, { model: { ...json.model, type: 'BPF' } }],
    ['model', /every token an id/, { model: { ...json.model, vocab: { a: 2 ** 31 } } }],
    ['model', /must be an object/, { model: { ...json.model, vocab: [['a', 0]] } }],
    ['model', /its model is damaged/, { model: { ...json.model, merges: [{}] } }],
    ['pre_tokenizer', /has no type/, { pre_tokenizer: 'ByteLevel' }],
    ['pre_tokenizer', /has the pretokenizers an object/, { pre_tokenizer: sequence({}) }],
    ['pre_tokenizer', /sequence without a list/, { pre_tokenizer: sequence(null) }],
    ['pre_tokenizer', /part that is null/, { pre_tokenizer: sequence([null]) }],
    ['pre_tokenizer', /lacks a pattern/, { pre_tokenizer: split(null) }],
    ['pre_tokenizer', /has the pattern an object/, { pre_tokenizer: split({ Regexp: 'a' }) }],
    ['pre_tokenizer', /its pre_tokenizer is damaged/, { pre_tokenizer: split({ Regex: '(' }) }],
    [
      'pre_tokenizer',
      /more than one ByteLevel/,
      { pre_tokenizer: sequence(Array(40).fill({ type: 'ByteLevel' })) },
    ],
    ['normalizer', /without end/, { normalizer: deep }],
    [
      'normalizer',
      /200 parts|201 parts/,
      { normalizer: { type: 'Sequence', normalizers: Array(200).fill(replace) } },
    ],
    ['decoder', /decoder of type "\\u001b/, { decoder: { type: '\u001b'.repeat(9999) } }],
    ['decoder', /its decoder is damaged/, { decoder: { ...replace, pattern: { Regex: '[' } } }],
    [
      'post_processor',
      /has the single a list of 5000/,
      { post_processor: { type: 'TemplateProcessing', single: repeat } },
    ],
    [
      'post_processor',
      /uses a token that is not in its vocabulary/,
      { post_processor: { type: 'TemplateProcessing', single: addsUnknown } },
    ],
  ])('says what is wrong with a damaged %s: %s', (_, message, changes) => {
    let error: unknown;
    try {
      Tokenizer.fromJson({ ...json, ...changes }, '/a/tokenizer.json');
    } catch (thrown) {
      error = thrown;
    }
    expectRefusal(error, CheckpointError, '/a/tokenizer.json');
    expect((error as Error).message).toMatch(message);
  });

  it('refuses a text for which the file has no ids', () => {
    const unknown = { type: 'WordLevel', vocab: { a: 0 }, unk_token: '<unk>' };
    const broken = Tokenizer.fromJson({ model: unknown });
    expect(() => broken.encode('b')).toThrow(/uses a token that is not in its vocabulary/);
  });
});

describe('loadTokenizer', () => {
  const { tokenizer: json } = smallTokenizer('byte_level');
  let folder: string;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'text-test-'));
    await writeFile(join(folder, 'tokenizer.json'), JSON.stringify(json));
    await writeFile(join(folder, 'cut.json'), JSON.stringify(json).slice(0, -9));
  });
  afterAll(() => rm(folder, { recursive: true }));

  it('reads a file or its folder', async () => {
    const ids = Tokenizer.fromJson(json).encode('the fox');
    for (const path of [folder, join(folder, 'tokenizer.json')]) {
      expect((await loadTokenizer(path)).encode('the fox')).toEqual(ids);
    }
  });

  it('says which file is missing', async () => {
    const error = await loadTokenizer(join(folder, 'nowhere')).catch((e: unknown) => e);
    expect(error).toBeInstanceOf(CheckpointError);
    expect((error as Error).message).toContain(join(folder, 'nowhere'));
  });

  it('refuses a device, which may have no end', async () => {
    await expect(loadTokenizer('/dev/zero')).rejects.toThrow(CheckpointError);
    await expect(loadTokenizer('/dev/zero')).rejects.toThrow('/dev/zero is not a file.');
  });

  it('says that a cut file is not JSON', async () => {
    await expect(loadTokenizer(join(folder, 'cut.json'))).rejects.toThrow(/cut\.json is not JSON/);
    await expect(loadTokenizer(join(folder, 'cut.json'))).rejects.toThrow(CheckpointError);
  });
});
