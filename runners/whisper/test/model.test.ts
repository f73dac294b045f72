import { describe, expect, it } from 'vitest';
import { mx, type Dtype, type MxArray } from '@mlx-runners/mlx-core';
import { parseConfig } from '../src/config.js';
import { EncodedWindow, Whisper } from '../src/model.js';

const config = parseConfig({
  vocab_size: 40,
  num_mel_bins: 6,
  d_model: 16,
  encoder_layers: 2,
  encoder_attention_heads: 2,
  encoder_ffn_dim: 32,
  decoder_layers: 2,
  decoder_attention_heads: 4,
  decoder_ffn_dim: 24,
  max_source_positions: 12,
  max_target_positions: 20,
});

function randomModel(dtype: Dtype): Whisper {
  const model = new Whisper(config);
  let seed = 0;
  const weights = [...model.parameters()].map(
    ([name, { shape }]) =>
      [name, mx.randomNormal(mx.randomKey(seed++), shape).multiply(0.3)] as const,
  );
  model.load(new Map(weights), { dtype });
  return model;
}

function features(batch: number, dtype: Dtype): MxArray {
  return mx.randomNormal(mx.randomKey(99), [batch, 24, 6]).astype(dtype);
}

function ids(rows: number[][]): MxArray {
  return mx.array(Int32Array.from(rows.flat()), [rows.length, rows[0].length]);
}

const tolerance = { float32: 1e-4, float16: 3e-2, bfloat16: 2e-1 };

describe.each(['float32', 'float16', 'bfloat16'] as const)('Whisper in %s', (dtype) => {
  const model = randomModel(dtype);

  it('keeps dtype and shape, for any batch', () => {
    const states = model.encoder.forward(features(2, dtype));
    expect([states.shape, states.dtype]).toEqual([[2, 12, 16], dtype]);
    const hidden = model.decoder.forward(
      ids([
        [1, 2, 3],
        [4, 5, 6],
      ]),
      new EncodedWindow(model.decoder, states).cache(),
    );
    const logits = model.decoder.logits(hidden);
    expect([logits.shape, logits.dtype]).toEqual([[2, 3, 40], dtype]);
  });

  it('gives the same logits in one step and token by token with the cache', () => {
    const states = model.encoder.forward(features(1, dtype));
    const sequence = [3, 1, 4, 1, 5, 9];
    const whole = model.decoder.forward(
      ids([sequence]),
      new EncodedWindow(model.decoder, states).cache(),
    );
    const cache = new EncodedWindow(model.decoder, states).cache();
    const steps = sequence.map((token) => model.decoder.forward(ids([[token]]), cache));
    expect(cache.length).toBe(6);
    const difference = mx.concatenate(steps, 1).subtract(whole).abs().max().astype('float32');
    expect(difference.itemSync()).toBeLessThan(tolerance[dtype]);
  });

  it('goes on alike from a repeated cache', () => {
    const states = model.encoder.forward(features(1, dtype));
    const cache = new EncodedWindow(model.decoder, states).cache();
    model.decoder.forward(ids([[7, 8]]), cache);
    cache.repeat(3);
    const next = model.decoder.forward(ids([[1], [2], [1]]), cache);
    const [first, second, third] = mx.split(next, 3, 0);
    const apart = (a: MxArray, b: MxArray): number => a.subtract(b).abs().max().itemSync();
    expect(apart(first, third)).toBe(0);
    expect(apart(first, second)).toBeGreaterThan(0);
  });
});

describe('DecoderCache', () => {
  it('leaves no arrays behind, neither of a step nor of itself', () => {
    const model = randomModel('float32');
    const states = model.encoder.forward(features(1, 'float32'));
    const before = mx.memory().arrays;
    {
      using window = new EncodedWindow(model.decoder, states);
      using cache = window.cache();
      for (let step = 0; step < 10; step++) {
        const hidden = mx.tidy(() => model.decoder.forward(ids([[step]]), cache));
        hidden.dispose();
      }
      expect(mx.memory().arrays).toBe(before + 2 * 2 * 2);
    }
    expect(mx.memory().arrays).toBe(before);
  });
});
