import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CheckpointError, mx, type MxArray } from '@mlx-runners/mlx-core';
import { expectRefusal, type Files } from '@mlx-runners/test-fixtures';
import { load } from '@mlx-runners/whisper';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { fromCTranslate2, sanitize } from '../src/checkpoint.js';
import { cTranslate2Files, cTranslate2Weights, huggingFaceFiles } from './tiny-model.js';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'whisper-damaged-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

/** The message with which a folder of these files is refused. */
async function refusal(files: Files): Promise<string> {
  for (const [name, bytes] of Object.entries(files)) writeFileSync(join(folder, name), bytes);
  const { arrays } = mx.memory();
  const error: unknown = await load(folder).then(
    () => expect.unreachable(),
    (reason: unknown) => reason,
  );
  expectRefusal(error, CheckpointError, folder);
  expect(mx.memory().arrays).toBe(arrays);
  return (error as Error).message;
}

type Json = Record<string, unknown>;

/** The files with another config.json or tokenizer.json. */
function changed(files: Files, name: string, change: (json: Json) => object): Files {
  const json = JSON.parse(files[name].toString()) as Json;
  return { ...files, [name]: Buffer.from(JSON.stringify(change(json))) };
}

describe('a folder whose parts do not fit together', () => {
  const config = (changes: Json): Files =>
    changed(huggingFaceFiles(), 'config.json', (json) => ({ ...json, ...changes }));

  it('is refused with the tensor and both shapes', async () => {
    expect(await refusal(config({ decoder_ffn_dim: 24 }))).toMatch(
      /3 of another shape: decoder\.layers\.0\.fc1\.weight \[16, 8\] instead of \[24, 8\]/,
    );
  });

  it('is refused before layers are built that it does not have', async () => {
    expect(await refusal(config({ encoder_layers: 1e9 }))).toMatch(/encoder_layers: .*<=1000/);
    expect(await refusal(config({ vocab_size: 2 ** 53 }))).toMatch(/vocab_size: /);
    expect(await refusal(config({ decoder_layers: 2 }))).toMatch(/missing: decoder\.layers\.1\./);
  });

  it('is refused when the tokenizer has more tokens than the model', async () => {
    const files = changed(huggingFaceFiles(), 'tokenizer.json', (json) => ({
      ...json,
      added_tokens: (json.added_tokens as Json[]).map((token) => ({
        ...token,
        id: (token.id as number) + 100,
      })),
    }));
    expect(await refusal(files)).toMatch(/has the special token 20\d, the model only 120 tokens/);
  });

  it('is refused when special tokens lie two billion ids apart', async () => {
    const files = changed(huggingFaceFiles(), 'tokenizer.json', (json) => ({
      ...json,
      added_tokens: (json.added_tokens as Json[]).map((token) => ({
        ...token,
        id: token.content === '<|translate|>' ? 2 ** 31 - 1 : token.id,
      })),
    }));
    expect(await refusal(files)).toMatch(/special token 2147483647/);
  });

  it('is refused when the tokenizer is not Whisper’s', async () => {
    const files = changed(cTranslate2Files(), 'tokenizer.json', (json) => ({
      ...json,
      added_tokens: [],
    }));
    expect(await refusal(files)).toMatch(/not Whisper's: it has no <\|startoftranscript\|>/);
  });

  it('is refused when a convolution is a matrix', async () => {
    const files = huggingFaceFiles();
    const text = files['model.safetensors'].toString('latin1');
    // As long as before, so that the header's length stays true.
    const flat = text.replace('"shape":[8,80,3]', '"shape":[8, 240]');
    expect(flat).not.toBe(text);
    const weights = Buffer.from(flat, 'latin1');
    expect(await refusal({ ...files, 'model.safetensors': weights })).toMatch(
      /encoder\.conv1\.weight \[8, 240\] instead of \[8, 3, 80\]/,
    );
  });
});

describe('CTranslate2 variables', () => {
  const withVariable = (name: string, value: MxArray): Map<string, MxArray> =>
    cTranslate2Weights().set(name, value);

  it.each([
    ['constructor', /it has "constructor"/],
    ['encoder/layer_norm/toString', /it has "encoder\/layer_norm\/toString"/],
    ['\n'.repeat(9999), /it has "\\u000a/],
  ])('refuses the name %j', (name, message) => {
    mx.tidy(() => {
      expect(() => fromCTranslate2(withVariable(name, mx.zeros([1])))).toThrow(message);
    });
  });

  it('refuses projections that are no whole number of matrices', () => {
    const name = 'encoder/layer_0/self_attention/linear_0/weight';
    mx.tidy(() => {
      for (const value of [mx.zeros([25, 8]), mx.zeros([])]) {
        expect(() => fromCTranslate2(withVariable(name, value))).toThrow(
          /linear_0\/weight \[.*\] can't be cut into 3 projections/,
        );
      }
    });
  });

  it('takes a setting that is a vector of one, and none that has more', () => {
    mx.tidy(() => {
      const heads = (value: MxArray): unknown =>
        fromCTranslate2(withVariable('encoder/num_heads', value)).heads.encoder;
      expect(heads(mx.array([2], [1], 'int32'))).toBe(2);
      expect(heads(mx.array([2, 2], [2], 'int32'))).toBe(0);
    });
  });
});

it('sanitize refuses a tensor that is there with and without its prefix', () => {
  mx.tidy(() => {
    const twice = new Map([
      ['model.encoder.layer_norm.bias', mx.zeros([8])],
      ['encoder.layer_norm.bias', mx.zeros([8])],
    ]);
    expect(() => sanitize(twice)).toThrow(/encoder\.layer_norm\.bias twice/);
  });
});
