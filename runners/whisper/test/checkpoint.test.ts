import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { CheckpointError, mx } from '@mlx-runners/mlx-core';
import { fromCTranslate2, loadWhisper, sanitize } from '../src/checkpoint.js';
import { configFromTensors, parseConfig } from '../src/config.js';
import { cTranslate2Weights, huggingFaceWeights, tiny } from './tiny-model.js';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'whisper-checkpoint-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

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
    await expect(loadWhisper(folder, 'float32')).rejects.toThrow(/config\.json can't be read/);
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
