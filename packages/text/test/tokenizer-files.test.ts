import { CheckpointError } from '@mlx-runners/mlx-core/errors';
import { loadTokenizer, type Tokenizer } from '@mlx-runners/text';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { smallTokenizer } from './small-tokenizers.js';
import { tokenLists } from './token-lists.js';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'text-test-'));
});
afterEach(() => rm(folder, { recursive: true }));

async function load(files: Record<string, string | Uint8Array>): Promise<Tokenizer> {
  for (const [name, content] of Object.entries(files)) await writeFile(join(folder, name), content);
  return loadTokenizer(folder);
}

const { model, bins, texts, ids, decoded } = tokenLists.sentencePiece;
const spModel = Buffer.from(model, 'base64');

describe.each([
  ['tokenizer.model', spModel],
  ["llama2.c's tokenizer.bin", Buffer.from(bins[0], 'base64')],
  ["llama2.c's tokenizer.bin with ExecuTorch's header", Buffer.from(bins[1], 'base64')],
])('%s', (name, bytes) => {
  const file = name.includes('.model') ? 'tokenizer.model' : 'tokenizer.bin';

  it('gives the ids and texts of SentencePiece', async () => {
    const tokenizer = await load({ [file]: bytes });
    expect(tokenizer.specialTokens).toEqual({ unknown: 0, bos: 1, eos: 2 });
    texts.forEach((text, i) => {
      expect(tokenizer.encode(text)).toEqual(ids[i]);
      expect(tokenizer.encode(text, { addSpecialTokens: true })).toEqual([1, ...ids[i]]);
      expect(tokenizer.decode(ids[i])).toBe(decoded[i]);
    });
  });

  it('is refused where it is cut', async () => {
    await expect(load({ [file]: bytes.subarray(0, -5) })).rejects.toThrow(CheckpointError);
    await expect(load({ [file]: bytes.subarray(0, 2) })).rejects.toThrow(/or damaged/);
    await expect(load({ [file]: '' })).rejects.toThrow(CheckpointError);
  });
});

describe('a SentencePiece model that is not supported', () => {
  /** One field of a message, of the wire type 0 (a small integer) or 2 (bytes). */
  const integer = (field: number, value: number) => Buffer.from([field << 3, value]);
  const message = (field: number, bytes: Uint8Array) =>
    Buffer.concat([Buffer.from([(field << 3) | 2, bytes.length]), bytes]);
  // Later fields of a number count before earlier ones.
  it.each([
    ['of another type', message(2, integer(3, 1)), /is not of type BPE/],
    ['with rules for normalising', message(3, message(2, Buffer.of(1, 2))), /it normalises text/],
    ['that trims spaces', message(3, integer(4, 1)), /it normalises text/],
  ])('is refused: %s', async (_, changes, text) => {
    await expect(load({ 'tokenizer.model': Buffer.concat([spModel, changes]) })).rejects.toThrow(
      text,
    );
  });
});

describe('tokenizer_config.json', () => {
  const { tokenizer: json } = smallTokenizer('byte_level');
  const withConfig = (config: unknown) =>
    load({
      'tokenizer.json': JSON.stringify(json),
      'tokenizer_config.json': JSON.stringify(config),
    });

  it('names the special tokens, as texts or as objects', async () => {
    const tokenizer = await withConfig({
      bos_token: '<|start|>',
      eos_token: { content: '<|end|>', lstrip: false },
      pad_token: null,
    });
    expect(tokenizer.specialTokens).toEqual({ bos: 0, eos: 1 });
    // It says nothing about the frame, so the file's own stays.
    expect(tokenizer.encode('', { addSpecialTokens: true })).toEqual([0, 1]);
  });

  it('says what is put around a text', async () => {
    const tokens = { bos_token: '<|start|>', eos_token: '<|end|>' };
    for (const [flags, expected] of [
      [{ add_bos_token: true }, [0]],
      [{ add_bos_token: true, add_eos_token: true }, [0, 1]],
      [{ add_bos_token: false }, []],
    ] as const) {
      const tokenizer = await withConfig({ ...tokens, ...flags });
      expect(tokenizer.encode('', { addSpecialTokens: true })).toEqual(expected);
    }
  });

  it('adds tokens that the tokenizer.json lacks', async () => {
    const added = { content: '<|tool|>', special: false, normalized: false };
    const tokenizer = await withConfig({
      added_tokens_decoder: { 500: added, 1: { content: '<|end|>', special: false } },
      pad_token: '<|pad|>',
    });
    expect(tokenizer.encode('<|tool|><|pad|>')).toEqual([500, 501]);
    expect(tokenizer.specialTokens).toEqual({ padding: 501 });
    expect([...tokenizer.specialIds]).toEqual([0, 501]);
    expect(tokenizer.decode([500, 501, 1])).toBe('<|tool|><|end|>');
  });

  it.each([
    [[], /is not an object/],
    [{ bos_token: 7 }, /bos_token must be a token, not 7/],
    [{ add_bos_token: 1 }, /add_bos_token must be true or false/],
    [{ added_tokens_decoder: { x: {} } }, /added_tokens_decoder must give tokens by their ids/],
  ])('is refused when it is %j', async (config, text) => {
    await expect(withConfig(config)).rejects.toThrow(CheckpointError);
    await expect(withConfig(config)).rejects.toThrow(text);
  });

  it('goes with other kinds of tokenizers, too', async () => {
    const tokenizer = await load({
      'tokenizer.model': spModel,
      'tokenizer_config.json': JSON.stringify({
        bos_token: '<s>',
        eos_token: '</s>',
        add_bos_token: false,
        add_eos_token: true,
      }),
    });
    const text = texts.indexOf('hello the fox');
    expect(tokenizer.encode(texts[text], { addSpecialTokens: true })).toEqual([...ids[text], 2]);
  });
});
