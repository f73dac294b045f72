/** Conversions to folders of mlx-lm, of checkpoints written here from a golden's weights. */
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { FileError, mx, UsageError, type MxArray } from '@mlx-runners/mlx-core';
import {
  convertCheckpoint,
  familyOf,
  GrowingCache,
  loadDecoder,
  readDecoderCheckpoint,
  type ConvertOptions,
} from '@mlx-runners/lm';
import { fixturePath, type GgufEntry } from '@mlx-runners/test-fixtures';
import { loadChatTemplate, loadTokenizer, Tokenizer } from '@mlx-runners/text';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ggufOf } from './gguf-of-golden.js';

let scratch: string;
beforeEach(() => {
  scratch = mkdtempSync(join(tmpdir(), 'lm-convert-'));
});
afterEach(() => rmSync(scratch, { recursive: true }));

const names = [
  'tiny_llama_tied',
  'tiny_llama3',
  'tiny_qwen2',
  'tiny_qwen3',
  'tiny_gemma3',
] as const;

function golden(name: string) {
  const { tensors, metadata } = mx.loadSafetensors(fixturePath(`${name}.safetensors`));
  const weights = [...tensors].filter(([key]) => key.startsWith('w.'));
  return {
    config: JSON.parse(metadata.config) as Record<string, unknown>,
    weights: new Map(weights.map(([key, tensor]) => [key.slice(2), tensor])),
    ids: tensors.get('ids')!,
  };
}

function huggingFace(name: string): string {
  const { config, weights } = golden(name);
  const folder = join(scratch, 'source');
  mkdirSync(folder);
  mx.saveSafetensors(join(folder, 'model.safetensors'), weights);
  writeFileSync(join(folder, 'config.json'), JSON.stringify(config));
  writeFileSync(join(folder, 'generation_config.json'), '{"eos_token_id": 7}');
  return folder;
}

const configOf = (folder: string): Record<string, unknown> =>
  JSON.parse(readFileSync(join(folder, 'config.json'), 'utf8')) as Record<string, unknown>;

function logitsOf(path: string, ids: MxArray): MxArray {
  using decoder = loadDecoder(readDecoderCheckpoint(path));
  using cache = new GrowingCache(decoder.layouts);
  const { logits } = decoder.forward({ ids, cache });
  mx.evalSync(logits);
  return logits;
}

async function difference(a: MxArray, b: MxArray): Promise<number> {
  return await a.subtract(b).abs().max().divide(b.max().subtract(b.min())).item();
}

describe.each(names)('%s', (name) => {
  it('is the same model after a conversion', async () => {
    const source = huggingFace(name);
    const target = join(scratch, 'target');
    const { files, packedLayers } = await convertCheckpoint(source, target, { dtype: 'float32' });
    expect(packedLayers).toBe(0);
    expect(files.toSorted()).toEqual(readdirSync(target).toSorted());
    expect(files).toContain('generation_config.json');
    const { metadata } = mx.loadSafetensors(join(target, 'model.safetensors'));
    expect(metadata).toEqual({ format: 'mlx' });
    expect(configOf(target).torch_dtype).toBe('float32');
    const { ids } = golden(name);
    expect(await difference(logitsOf(target, ids), logitsOf(source, ids))).toBe(0);
  });
});

it('writes rotations as old readers know them', async () => {
  const target = join(scratch, 'target');
  await convertCheckpoint(huggingFace('tiny_llama3'), target);
  const { rope_scaling, rope_theta } = configOf(target);
  expect(rope_scaling).toMatchObject({ rope_type: 'llama3' });
  expect(rope_theta).toBeGreaterThan(0);
});

describe('packing', () => {
  it.each<[ConvertOptions['quantize'], object, number]>([
    [{ bits: 4, groupSize: 32 }, { mode: 'affine', bits: 4, group_size: 32 }, 0.5],
    [{ bits: 8, groupSize: 32 }, { mode: 'affine', bits: 8, group_size: 32 }, 0.05],
    [{ mode: 'mxfp8' }, { mode: 'mxfp8', bits: 8, group_size: 32 }, 0.4],
    [{ mode: 'nvfp4' }, { mode: 'nvfp4', bits: 4, group_size: 16 }, 0.6],
  ])('in %o', async (quantize, quantization, tolerance) => {
    const source = huggingFace('tiny_llama_tied');
    const target = join(scratch, 'target');
    const { packedLayers } = await convertCheckpoint(source, target, { quantize });
    expect(packedLayers).toBeGreaterThan(0);
    expect(configOf(target)).toMatchObject({ quantization, quantization_config: quantization });
    const { ids } = golden('tiny_llama_tied');
    expect(await difference(logitsOf(target, ids), logitsOf(source, ids))).toBeLessThan(tolerance);

    const plain = join(scratch, 'plain');
    await convertCheckpoint(target, plain, { dequantize: true, dtype: 'float32' });
    expect(configOf(plain).quantization).toBeUndefined();
    expect(await difference(logitsOf(plain, ids), logitsOf(target, ids))).toBeLessThan(5e-3);

    const again = join(scratch, 'again');
    await convertCheckpoint(target, again);
    expect(configOf(again).quantization).toEqual(configOf(target).quantization);
  });
});

describe('GGUF files', () => {
  const tokens = ['<s>', '</s>', '<|end|>', 'a', 'b', 'ab', 'Ġ', 'Ġab'];
  const tokenizer: [string, GgufEntry][] = [
    ['tokenizer.ggml.model', { type: 'string', value: 'gpt2' }],
    ['tokenizer.ggml.pre', { type: 'string', value: 'smollm' }],
    ['tokenizer.ggml.tokens', { type: 'array', of: 'string', value: tokens }],
    ['tokenizer.ggml.token_type', { type: 'array', of: 'int32', value: [3, 3, 3, 1, 1, 1, 1, 1] }],
    ['tokenizer.ggml.merges', { type: 'array', of: 'string', value: ['a b', 'Ġ ab'] }],
    ['tokenizer.ggml.bos_token_id', { type: 'uint32', value: 0 }],
    ['tokenizer.ggml.eos_token_id', { type: 'uint32', value: 1 }],
    ['tokenizer.ggml.eot_token_id', { type: 'uint32', value: 2 }],
    ['tokenizer.ggml.add_bos_token', { type: 'bool', value: true }],
    [
      'tokenizer.chat_template',
      { type: 'string', value: '{{ bos_token }}{{ messages[0].content }}<|end|>' },
    ],
  ];

  /** Wide enough for blocks of 256. */
  function wideModel() {
    const config = {
      ...golden('tiny_llama_tied').config,
      ...{ vocab_size: 32, hidden_size: 256, intermediate_size: 256, num_hidden_layers: 1 },
      ...{ num_attention_heads: 4, num_key_value_heads: 2, head_dim: 64 },
    };
    using decoder = familyOf(config).build(config);
    const weights = new Map(
      [...decoder.parameters()].map(([name, { shape, size }]) => {
        const numbers = Float32Array.from({ length: size }, (_, i) => Math.sin(i * 0.7 + size));
        return [name, mx.array(numbers).reshape(shape).multiply(0.1)] as const;
      }),
    );
    return { config, weights, ids: mx.array([[1, 5, 31, 2]], null, 'int32') };
  }

  it.each(['Q4_0', 'Q4_1', 'Q5_0', 'Q5_1', 'Q8_0', 'Q4_K', 'Q5_K'] as const)(
    '%s blocks are repacked exactly, rows of q and k turned',
    async (format) => {
      const { config, weights, ids } = wideModel();
      const source = join(scratch, 'model.gguf');
      writeFileSync(source, ggufOf({ config, weights, format, metadata: tokenizer }));
      const expected = logitsOf(source, ids);
      for (const [target, options, packed] of [
        ['packed', { repack: 'affine' }, 8],
        ['plain', { dtype: 'float32' }, 0],
      ] as const) {
        const folder = join(scratch, target);
        const { packedLayers } = await convertCheckpoint(source, folder, options);
        expect(packedLayers).toBe(packed);
        expect(configOf(folder).rope_traditional).toBeUndefined();
        expect(await difference(logitsOf(folder, ids), expected)).toBeLessThan(1e-5);
      }
    },
  );

  it('bring their tokenizer, its template and the ids that end an answer', async () => {
    const { config, weights } = golden('tiny_llama_tied');
    const source = join(scratch, 'model.gguf');
    writeFileSync(source, ggufOf({ config, weights, format: 'Q8_0', metadata: tokenizer }));
    const target = join(scratch, 'target');
    await convertCheckpoint(source, target);
    const own = Tokenizer.fromGguf(mx.loadGguf(source).metadata);
    const converted = await loadTokenizer(target);
    const text = 'ab ab<|end|>ba';
    expect(converted.encode(text, { addSpecialTokens: true })).toEqual(
      own.encode(text, { addSpecialTokens: true }),
    );
    expect(converted.specialTokens).toMatchObject({ bos: 0, eos: 1 });
    const template = await loadChatTemplate(target);
    expect(template!.apply([{ role: 'user', content: 'ab' }])).toBe('<s>ab<|end|>');
    const ids = { bos_token_id: 0, eos_token_id: [1, 2] };
    expect(configOf(target)).toMatchObject(ids);
    expect(JSON.parse(readFileSync(join(target, 'generation_config.json'), 'utf8'))).toEqual(ids);
  });
});

it('begins a further file where one is full', async () => {
  const source = huggingFace('tiny_qwen3');
  const target = join(scratch, 'target');
  const { bytes, tensors } = await convertCheckpoint(source, target, { maxShardBytes: 100_000 });
  const shards = readdirSync(target).filter((name) =>
    /^model-\d{5}-of-\d{5}\.safetensors$/.test(name),
  );
  expect(shards.length).toBeGreaterThan(2);
  const index = JSON.parse(readFileSync(join(target, 'model.safetensors.index.json'), 'utf8')) as {
    metadata: { total_size: number };
    weight_map: Record<string, string>;
  };
  expect(index.metadata.total_size).toBe(bytes);
  expect(Object.keys(index.weight_map)).toHaveLength(tensors);
  const { ids } = golden('tiny_qwen3');
  expect(await difference(logitsOf(target, ids), logitsOf(source, ids))).toBe(0);
});

it('refuses what it can not do, and leaves nothing behind', async () => {
  const source = huggingFace('tiny_qwen3');
  const target = join(scratch, 'target');
  const bad: [Promise<unknown>, new (message: string) => Error, RegExp][] = [
    [convertCheckpoint(source, source), FileError, /can't be replaced: it is not empty/],
    [
      convertCheckpoint(source, target, { quantize: { bits: 7 } }),
      UsageError,
      /2, 3, 4, 5, 6, 8 bits/,
    ],
    [
      convertCheckpoint(source, target, { quantize: {}, dequantize: true }),
      UsageError,
      /quantize and dequantize, not both/,
    ],
  ];
  for (const [conversion, kind, message] of bad) {
    await expect(conversion).rejects.toThrow(kind);
    await expect(conversion).rejects.toThrow(message);
  }
  const controller = new AbortController();
  controller.abort();
  const aborted = convertCheckpoint(source, target, { signal: controller.signal });
  await expect(aborted).rejects.toThrow(/abort/i);
  expect(existsSync(target)).toBe(false);
  expect(readdirSync(scratch)).toEqual(['source']);
});
