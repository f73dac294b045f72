/** Checkpoints of llama2.c, made from a golden's weights: rows turned from halves to pairs. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CheckpointError, mx, type MxArray } from '@mlx-runners/mlx-core';
import {
  convertCheckpoint,
  GrowingCache,
  loadDecoder,
  readDecoderCheckpoint,
  type Decoder,
} from '@mlx-runners/lm';
import {
  fixturePath,
  pyTorchBytes,
  tokenizerBin,
  type PyTorchTensor,
} from '@mlx-runners/test-fixtures';
import { loadChatTemplate, loadTokenizer } from '@mlx-runners/text';
import { afterEach, beforeEach, expect, it } from 'vitest';

const { tensors, metadata } = mx.loadSafetensors(fixturePath('tiny_llama_tied.safetensors'));
const config = JSON.parse(metadata.config) as {
  hidden_size: number;
  num_hidden_layers: number;
  num_attention_heads: number;
  num_key_value_heads: number;
  rms_norm_eps: number;
  rope_theta?: number;
  rope_parameters?: { rope_theta: number };
};
const ids = tensors.get('ids')!;

const names: readonly (readonly [RegExp, string])[] = [
  [/^model\.embed_tokens/, 'tok_embeddings'],
  [/^model\.norm/, 'norm'],
  [/^model\./, ''],
  [/self_attn\.(.)_proj/, 'attention.w$1'],
  [/mlp\.gate_proj/, 'feed_forward.w1'],
  [/mlp\.down_proj/, 'feed_forward.w2'],
  [/mlp\.up_proj/, 'feed_forward.w3'],
  [/input_layernorm/, 'attention_norm'],
  [/post_attention_layernorm/, 'ffn_norm'],
];

/** Rows of each head from [2, D/2] to [D/2, 2]. */
function interleaved(matrix: MxArray, heads: number): MxArray {
  const [rows, columns] = matrix.shape;
  return matrix
    .reshape([heads, 2, rows / heads / 2, columns])
    .transpose([0, 2, 1, 3])
    .reshape([rows, columns]);
}

const model: Record<string, PyTorchTensor> = {};
for (const [given, tensor] of tensors) {
  if (!given.startsWith('w.')) continue;
  const name = names.reduce((text, [from, to]) => text.replace(from, to), given.slice(2));
  const heads = { wq: config.num_attention_heads, wk: config.num_key_value_heads };
  const [, part] = /attention\.(wq|wk)/.exec(name) ?? [];
  const turned = part ? interleaved(tensor, heads[part as 'wq' | 'wk']) : tensor;
  model[name] = { shape: tensor.shape, data: turned.astype('float32').dataSync() as Float32Array };
}

const model_args = {
  dim: config.hidden_size,
  n_layers: config.num_hidden_layers,
  n_heads: config.num_attention_heads,
  n_kv_heads: config.num_key_value_heads,
  vocab_size: -1,
  multiple_of: 32,
  norm_eps: config.rms_norm_eps,
  max_seq_len: 256,
  rope_theta: config.rope_parameters?.rope_theta ?? config.rope_theta ?? 10_000,
  dropout: 0.1,
};

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'lm-llama2c-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

function written(object: Parameters<typeof pyTorchBytes>[0], name = 'model.pt'): string {
  const path = join(folder, name);
  writeFileSync(path, pyTorchBytes(object));
  return path;
}

async function error(decoder: Decoder): Promise<number> {
  using cache = new GrowingCache(decoder.layouts);
  const { logits } = decoder.forward({ ids, cache });
  const expected = tensors.get('logits')!.reshape(logits.shape);
  const range = expected.max().subtract(expected.min());
  return await logits.subtract(expected).abs().max().divide(range).item();
}

it('gives the logits of the same model with halves turned', async () => {
  using decoder = loadDecoder(readDecoderCheckpoint(written({ model, model_args })));
  expect(decoder.contextLength).toBe(256);
  expect(decoder.lm_head).toBeUndefined();
  expect(await error(decoder)).toBeLessThan(1e-4);
});

it('reads a folder with compiled names, its parameters in a file, and an output of its own', async () => {
  const output = { ...model['tok_embeddings.weight'] };
  const freqs = { shape: [2], data: Float32Array.of(1, 2) };
  const tensorsAlone = Object.fromEntries(
    Object.entries({ ...model, 'output.weight': output, freqs_cos: freqs }).map(([name, x]) => [
      `_orig_mod.${name}`,
      x,
    ]),
  );
  written(tensorsAlone, 'stories.pth');
  writeFileSync(join(folder, 'params.json'), JSON.stringify(model_args));
  using decoder = loadDecoder(readDecoderCheckpoint(folder));
  expect(decoder.lm_head).toBeUndefined();
  expect(await error(decoder)).toBeLessThan(1e-4);
});

it('keeps an output that is not the embeddings', () => {
  const data = Float32Array.from(model['tok_embeddings.weight'].data, (x) => -x);
  const output = { ...model['tok_embeddings.weight'], data };
  const path = written({ model: { ...model, 'output.weight': output }, model_args });
  using decoder = loadDecoder(readDecoderCheckpoint(path));
  expect(decoder.lm_head).toBeDefined();
});

it('is converted with the tokenizer.bin beside it', async () => {
  const path = written({ model, model_args });
  writeFileSync(join(folder, 'tokenizer.bin'), tokenizerBin(['ab', ' ab', ' a', ' ', 'a', 'b']));
  const target = join(folder, 'converted');
  const { files } = await convertCheckpoint(path, target);
  expect(files).toEqual(expect.arrayContaining(['tokenizer.json', 'tokenizer_config.json']));
  using decoder = loadDecoder(readDecoderCheckpoint(target));
  expect(await error(decoder)).toBeLessThan(1e-4);
  const [own, converted] = [await loadTokenizer(folder), await loadTokenizer(target)];
  const ids = own.encode('ab aab ☃', { addSpecialTokens: true });
  expect(ids[0]).toBe(1);
  expect(converted.encode('ab aab ☃', { addSpecialTokens: true })).toEqual(ids);
  expect(converted.decode(ids)).toBe('ab aab ☃');
  expect(converted.specialTokens).toMatchObject({ bos: 1, eos: 2, unknown: 0 });
});

it('keeps in a conversion what is said beside the pieces', async () => {
  const path = written({ model, model_args });
  writeFileSync(join(folder, 'tokenizer.bin'), tokenizerBin(['a', 'b']));
  writeFileSync(
    join(folder, 'tokenizer_config.json'),
    '{"chat_template": "{{ messages[0].content }}!"}',
  );
  writeFileSync(join(folder, 'generation_config.json'), '{"temperature": 0.5}');
  const target = join(folder, 'converted');
  await convertCheckpoint(path, target);
  const template = await loadChatTemplate(target);
  expect(template!.apply([{ role: 'user', content: 'ab' }])).toBe('ab!');
  expect(readFileSync(join(target, 'generation_config.json'), 'utf8')).toBe('{"temperature": 0.5}');
});

it('frees what is not the model', () => {
  const optimizer = { state: [{ exp_avg: { shape: [3], data: Float32Array.of(1, 2, 3) } }] };
  const path = written({ optimizer, model, model_args });
  const { arrays } = mx.memory();
  const checkpoint = readDecoderCheckpoint(path);
  expect(mx.memory().arrays - arrays).toBe(checkpoint.tensors.size);
  for (const tensor of checkpoint.tensors.values()) tensor.dispose();
});

it('refuses what is no checkpoint of llama2.c', () => {
  const bad: [string, RegExp][] = [
    [written({ model }, 'a.pt'), /no model_args, and there is no params\.json/],
    [written([1], 'b.pt'), /no dict of tensors/],
    [
      written({ model: { x: { shape: [1], data: Float32Array.of(1) } }, model_args }, 'c.pt'),
      /"x"/,
    ],
    [
      written({ model: { ...model, note: 'text' }, model_args }, 'd.pt'),
      /"note" among its tensors/,
    ],
    [
      written({ model, model_args: { ...model_args, dim: 0 } }, 'e.pt'),
      /the parameters of a Llama: dim/,
    ],
    [folder, /several models/],
    [fixturePath('tiny_llama_tied.safetensors'), /no file of a model: \.gguf, \.pt/],
  ];
  for (const [path, message] of bad) {
    expect(() => readDecoderCheckpoint(path)).toThrow(CheckpointError);
    expect(() => readDecoderCheckpoint(path)).toThrow(message);
  }
});
