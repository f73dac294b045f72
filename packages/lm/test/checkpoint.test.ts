/** Checkpoints of each kind, written here from a golden's weights. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CheckpointError, mx, type MxArray } from '@mlx-runners/mlx-core';
import { GrowingCache, loadDecoder, readDecoderCheckpoint, type Decoder } from '@mlx-runners/lm';
import { fixturePath, type GgufEntry } from '@mlx-runners/test-fixtures';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { ggufOf } from './gguf-of-golden.js';

const { tensors, metadata } = mx.loadSafetensors(fixturePath('tiny_llama_tied.safetensors'));
const weights = new Map(
  [...tensors].filter(([name]) => name.startsWith('w.')).map(([name, x]) => [name.slice(2), x]),
);
const config = JSON.parse(metadata.config) as Record<string, unknown>;
const ids = tensors.get('ids')!;

let scratch: string;
beforeAll(() => {
  scratch = mkdtempSync(join(tmpdir(), 'lm-checkpoint-'));
});
afterAll(() => rmSync(scratch, { recursive: true }));

function folder(
  name: string,
  arrays: ReadonlyMap<string, MxArray>,
  fields: Record<string, unknown> = {},
): string {
  const path = join(scratch, name);
  mkdirSync(path);
  mx.saveSafetensors(join(path, 'model.safetensors'), arrays);
  writeFileSync(join(path, 'config.json'), JSON.stringify({ ...config, ...fields }));
  return path;
}

/** Logits [1, T, V] of the golden's ids. */
function logits(decoder: Decoder): MxArray {
  using cache = new GrowingCache(decoder.layouts);
  return decoder.forward({ ids, cache }).logits;
}

function load(path: string): Decoder {
  return loadDecoder(readDecoderCheckpoint(path));
}

async function difference(a: MxArray, b: MxArray): Promise<number> {
  return a.subtract(b).abs().max().divide(b.max().subtract(b.min())).item();
}

it('reads a folder of Hugging Face', async () => {
  const decoder = load(folder('plain', weights));
  const expected = tensors.get('logits')!.reshape([1, ids.shape[1], -1]);
  expect(await difference(logits(decoder), expected)).toBeLessThan(1e-4);
});

/** All matrices of linear layers and embeddings, packed, and as what they then stand for. */
function quantised(
  formatOf: (name: string) => { bits: number; groupSize: number; mode: 'affine' | 'mxfp4' } | null,
): { packed: Map<string, MxArray>; unpacked: Map<string, MxArray> } {
  const [packed, unpacked] = [new Map<string, MxArray>(), new Map<string, MxArray>()];
  for (const [name, array] of weights) {
    const layer = name.replace(/\.weight$/, '');
    const format = array.ndim === 2 ? formatOf(layer) : null;
    if (!format) {
      packed.set(name, array);
      unpacked.set(name, array);
      continue;
    }
    const { bits, groupSize, mode } = format;
    const [codes, scales, biases] = mx.quantize(array, groupSize, bits, mode);
    packed.set(name, codes).set(`${layer}.scales`, scales);
    if (biases) packed.set(`${layer}.biases`, biases);
    unpacked.set(name, mx.dequantize(codes, scales, biases, groupSize, bits, mode));
  }
  return { packed, unpacked };
}

it.each([
  ['affine', { group_size: 32, bits: 4 }],
  ['affine', { group_size: 32, bits: 8, mode: 'affine' }],
  ['mxfp4', { mode: 'mxfp4' }],
] as const)('reads a folder of MLX with matrices in %s %o', async (mode, quantization) => {
  const { bits = 4 } = quantization as { bits?: number };
  const { packed, unpacked } = quantised(() => ({ bits, groupSize: 32, mode }));
  const name = `${mode}-${bits}`;
  const ours = load(folder(name, packed, { quantization }));
  const plain = load(folder(`${name}-plain`, unpacked));
  expect(await difference(logits(ours), logits(plain))).toBeLessThan(1e-5);
});

it('takes the format of a layer by its name, and none where it says so', async () => {
  const formatOf = (layer: string) => {
    if (layer.endsWith('embed_tokens')) return null;
    const bits = layer.endsWith('down_proj') ? 8 : 4;
    return { bits, groupSize: 32, mode: 'affine' as const };
  };
  const own = Object.fromEntries(
    [0, 1, 2].map((i) => [`model.layers.${i}.mlp.down_proj`, { group_size: 32, bits: 8 }]),
  );
  const { packed, unpacked } = quantised(formatOf);
  const quantization = { group_size: 32, bits: 4, 'model.embed_tokens': false, ...own };
  const ours = load(folder('mixed', packed, { quantization }));
  const plain = load(folder('mixed-plain', unpacked));
  expect(await difference(logits(ours), logits(plain))).toBeLessThan(1e-5);
});

it.each([{ tie_word_embeddings: true }, { tie_word_embeddings: null, model_type: 'gemma3_text' }])(
  'passes over an output matrix where it is the embeddings, and over tables of rotations: %j',
  (fields) => {
    const embeddings = weights.get('model.embed_tokens.weight')!;
    const [codes, scales, biases] = mx.quantize(embeddings, 32, 4);
    const more = {
      ...{ 'lm_head.weight': codes, 'lm_head.scales': scales, 'lm_head.biases': biases },
      'model.layers.0.self_attn.rotary_emb.inv_freq': mx.array([1, 0.5]),
    };
    const path = folder(
      `head-${fields.model_type}`,
      new Map([...weights, ...Object.entries(more)]),
      fields,
    );
    const checkpoint = readDecoderCheckpoint(path);
    expect([...checkpoint.tensors.keys()].sort()).toEqual([...weights.keys()].sort());
  },
);

it('has an output matrix of its own in a GGUF file that holds one', async () => {
  const path = join(scratch, 'own-output.gguf');
  const embeddings = weights.get('model.embed_tokens.weight')!;
  const given = new Map([...weights, ['lm_head.weight', embeddings.negative()]]);
  writeFileSync(path, ggufOf({ config, weights: given, format: 'Q8_0' }));
  const one = join(scratch, 'no-output.gguf');
  writeFileSync(one, ggufOf({ config, weights, format: 'Q8_0' }));
  expect(await difference(logits(load(path)), logits(load(one)).negative())).toBeLessThan(1e-5);
});

it('refuses what does not fit', () => {
  const { packed } = quantised(() => ({ bits: 4, groupSize: 32, mode: 'affine' }));
  const bad = [
    [folder('without a format', packed), /surplus.*scales/],
    [folder('odd', packed, { quantization: { group_size: 64, bits: 4 } }), /groups of 64/],
    [folder('family', weights, { model_type: 'bloom' }), /"bloom", which is not known: llama/],
    [folder('heads', weights, { num_attention_heads: 5, head_dim: null }), /can't share/],
    [folder('rope', weights, { rope_parameters: { rope_type: 'yarn' } }), /type "yarn"/],
    [join(scratch, 'nowhere'), /no such file/],
    [folder('tied', weights, { tie_word_embeddings: false }), /1 missing: lm_head\.weight/],
  ] as const;
  for (const [path, message] of bad) {
    expect(() => load(path)).toThrow(CheckpointError);
    expect(() => load(path)).toThrow(message);
  }
});

it.each(['uint32', 'int32'] as const)(
  'takes numbers of a GGUF file for each layer as %s',
  async (of) => {
    const path = join(scratch, `layers-${of}.gguf`);
    const one = join(scratch, `one-${of}.gguf`);
    const { num_key_value_heads: heads, intermediate_size: width, num_hidden_layers } = config;
    const perLayer = (value: unknown): GgufEntry => ({
      type: 'array',
      of,
      value: Array.from({ length: num_hidden_layers as number }, () => value),
    });
    const golden = { config, weights, format: 'Q8_0' as const };
    writeFileSync(one, ggufOf(golden));
    const metadata = [
      ['llama.attention.head_count_kv', perLayer(heads)],
      ['llama.feed_forward_length', perLayer(width)],
    ] as const;
    writeFileSync(path, ggufOf({ ...golden, metadata }));
    expect(await difference(logits(load(path)), logits(load(one)))).toBe(0);
  },
);

it('reads a GGUF file in parts, given its folder or any of them, and names one that is missing', async () => {
  const parts = join(scratch, 'parts');
  mkdirSync(parts);
  const all = [...weights];
  const paths = [0, 1, 2].map((number) => {
    const path = join(parts, `m-0000${number + 1}-of-00003.gguf`);
    const third = new Map(all.filter((_, i) => i % 3 === number));
    const metadata = [
      ['split.no', { type: 'uint16', value: number }],
      ['split.count', { type: 'uint16', value: 3 }],
      ['split.tensors.count', { type: 'int32', value: all.length }],
    ] as const;
    writeFileSync(path, ggufOf({ config, weights: third, format: 'Q8_0', metadata }));
    return path;
  });
  const one = join(scratch, 'in-one.gguf');
  writeFileSync(one, ggufOf({ config, weights, format: 'Q8_0' }));
  const expected = logits(load(one));
  for (const path of [parts, ...paths]) {
    expect(await difference(logits(load(path)), expected)).toBe(0);
  }
  rmSync(paths[0]);
  expect(() => load(parts)).toThrow(CheckpointError);
  expect(() => load(parts)).toThrow(/m-00001-of-00003\.gguf: No such file/);
  writeFileSync(join(parts, 'other.gguf'), '');
  expect(() => load(parts)).toThrow(/several models: m-00002-of-00003\.gguf, other\.gguf\./);
});

it('refuses a GGUF file whose layers differ', () => {
  const path = join(scratch, 'differ.gguf');
  const value: GgufEntry = { type: 'array', of: 'uint32', value: [2, 1, 2] };
  const metadata = [['llama.attention.head_count_kv', value]] as const;
  writeFileSync(path, ggufOf({ config, weights, format: 'Q8_0', metadata }));
  expect(() => load(path)).toThrow(CheckpointError);
  expect(() => load(path)).toThrow(/num_key_value_heads/);
});
