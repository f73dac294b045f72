import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { CheckpointError, mx, type MxArray } from '@mlx-runners/mlx-core';
import { fromCTranslate2, loadWhisper, sanitize } from '../src/checkpoint.js';
import { configFromTensors, parseConfig } from '../src/config.js';
import { Whisper } from '../src/model.js';

const tiny = {
  vocab_size: 30,
  num_mel_bins: 4,
  d_model: 8,
  encoder_layers: 1,
  encoder_attention_heads: 2,
  encoder_ffn_dim: 16,
  decoder_layers: 1,
  decoder_attention_heads: 2,
  decoder_ffn_dim: 16,
  max_source_positions: 10,
  max_target_positions: 12,
};

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'whisper-checkpoint-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

/** Random weights by Hugging Face's names and layouts. */
function huggingFaceWeights(): Map<string, MxArray> {
  const weights = new Map<string, MxArray>();
  let seed = 0;
  for (const [name, { shape }] of new Whisper(parseConfig(tiny)).parameters()) {
    const random = mx.randomNormal(mx.randomKey(seed++), shape);
    weights.set(`model.${name}`, /conv.\.weight/.test(name) ? random.swapaxes(1, 2) : random);
  }
  return weights;
}

/** The same weights as CTranslate2 has them, with fused projections and a zero bias for keys. */
function cTranslate2Weights(): Map<string, MxArray> {
  const source = sanitize(huggingFaceWeights());
  const get = (name: string): MxArray => source.get(name)!;
  const weights = new Map<string, MxArray>();
  const put = (name: string, from: string, kinds = ['weight', 'bias']): void => {
    const norm = from.endsWith('layer_norm');
    weights.set(`${name}/${norm ? 'gamma' : kinds[0]}`, get(`${from}.weight`));
    weights.set(`${name}/${norm ? 'beta' : kinds[1]}`, get(`${from}.bias`));
  };
  const fuse = (name: string, from: string, parts: string[]): void => {
    const bias = (part: string): MxArray =>
      source.get(`${from}.${part}.bias`) ?? mx.zeros([tiny.d_model]);
    weights.set(
      `${name}/weight`,
      mx.concatenate(
        parts.map((part) => get(`${from}.${part}.weight`)),
        0,
      ),
    );
    weights.set(`${name}/bias`, mx.concatenate(parts.map(bias), 0));
  };
  for (const side of ['encoder', 'decoder']) {
    const [own, layer] = [`${side}.layers.0`, `${side}/layer_0`];
    put(`${layer}/self_attention/layer_norm`, `${own}.self_attn_layer_norm`);
    fuse(`${layer}/self_attention/linear_0`, `${own}.self_attn`, ['q_proj', 'k_proj', 'v_proj']);
    put(`${layer}/self_attention/linear_1`, `${own}.self_attn.out_proj`);
    put(`${layer}/ffn/layer_norm`, `${own}.final_layer_norm`);
    put(`${layer}/ffn/linear_0`, `${own}.fc1`);
    put(`${layer}/ffn/linear_1`, `${own}.fc2`);
    put(`${side}/layer_norm`, `${side}.layer_norm`);
    weights.set(`${side}/position_encodings/encodings`, get(`${side}.embed_positions.weight`));
    weights.set(`${side}/num_heads`, mx.array(Int16Array.of(2), []));
  }
  const cross = 'decoder.layers.0.encoder_attn';
  put('decoder/layer_0/attention/layer_norm', `${cross}_layer_norm`);
  put('decoder/layer_0/attention/linear_0', `${cross}.q_proj`);
  fuse('decoder/layer_0/attention/linear_1', cross, ['k_proj', 'v_proj']);
  put('decoder/layer_0/attention/linear_2', `${cross}.out_proj`);
  for (const conv of ['conv1', 'conv2']) {
    weights.set(`encoder/${conv}/weight`, get(`encoder.${conv}.weight`).swapaxes(1, 2));
    weights.set(`encoder/${conv}/bias`, get(`encoder.${conv}.bias`));
  }
  weights.set('decoder/embeddings/weight', get('decoder.embed_tokens.weight'));
  return weights;
}

describe('loadWhisper', () => {
  it('loads a Hugging Face folder, whatever keys config.json has besides', async () => {
    const config = { ...tiny, architectures: ['WhisperForConditionalGeneration'], extra: 1 };
    writeFileSync(join(folder, 'config.json'), JSON.stringify(config));
    const weights = huggingFaceWeights();
    const stored = new Map([...weights].map(([name, tensor]) => [name, tensor.contiguous()]));
    mx.saveSafetensors(join(folder, 'model.safetensors'), stored);
    using model = await loadWhisper(folder, 'float32');
    const original = weights.get('model.encoder.conv2.weight')?.swapaxes(1, 2).contiguous();
    expect(model.encoder.conv2.weight.dataSync()).toEqual(original?.dataSync());
  });

  it('says what is wrong with config.json', async () => {
    mx.saveSafetensors(join(folder, 'model.safetensors'), { a: mx.zeros([1]) });
    await expect(loadWhisper(folder, 'float32')).rejects.toThrow(/config\.json does not describe/);
    writeFileSync(join(folder, 'config.json'), '{');
    await expect(loadWhisper(folder, 'float32')).rejects.toThrow(/is not JSON/);
    const incomplete = { ...tiny, d_model: undefined };
    writeFileSync(join(folder, 'config.json'), JSON.stringify(incomplete));
    await expect(loadWhisper(folder, 'float32')).rejects.toThrow(/d_model/);
  });
});

describe('fromCTranslate2', () => {
  it('gives the same network as the Hugging Face weights', () => {
    const { tensors, heads } = fromCTranslate2(cTranslate2Weights());
    expect(heads).toEqual({ encoder: 2, decoder: 2 });
    const config = configFromTensors(tensors, heads);
    expect(config).toMatchObject(tiny);
    const converted = sanitize(tensors);
    for (const [name, expected] of sanitize(huggingFaceWeights())) {
      const own = converted.get(name);
      expect(own?.shape, name).toEqual(expected.shape);
      expect(own?.contiguous().dataSync(), name).toEqual(expected.contiguous().dataSync());
      converted.delete(name);
    }
    expect([...converted.keys()]).toEqual([]);
  });

  it('refuses variables that no Whisper has', () => {
    const variables = new Map([['decoder/layer_0/rotary', mx.zeros([1])]]);
    expect(() => fromCTranslate2(variables)).toThrow(CheckpointError);
  });
});

describe('parseConfig', () => {
  it('refuses heads that do not divide the width', () => {
    expect(() => parseConfig({ ...tiny, encoder_attention_heads: 3 })).toThrow(/d_model 8/);
  });

  it('refuses what the network does not do', () => {
    expect(() => parseConfig({ ...tiny, activation_function: 'relu' })).toThrow(
      /activation_function/,
    );
  });
});
