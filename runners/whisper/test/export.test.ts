import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { mx, type MxArray } from '@mlx-runners/mlx-core';
import { exportModel, loadExport, readExport, type Session } from '@mlx-runners/program';
import { fixtureNames, fixturePath } from '@mlx-runners/test-fixtures';
import { logMelSpectrogram } from '@mlx-runners/speech';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { sanitize } from '../src/checkpoint.js';
import { parseConfig } from '../src/config.js';
import { whisperExport } from '../src/export.js';
import { argmax } from '../src/logits.js';
import { EncodedWindow, Whisper } from '../src/model.js';

const folder = mkdtempSync(join(tmpdir(), 'whisper-export-'));
afterAll(() => rmSync(folder, { recursive: true }));

async function numbers(array: MxArray): Promise<number[]> {
  return Array.from(await array.data(), Number);
}

async function expectClose(actual: MxArray, expected: MxArray): Promise<void> {
  expect(actual.shape).toEqual(expected.shape);
  const [a, b] = await Promise.all([numbers(actual), numbers(expected)]);
  const range = Math.max(...b) - Math.min(...b);
  const error = Math.max(...a.map((value, i) => Math.abs(value - b[i])));
  expect(error / range).toBeLessThan(1e-4);
}

describe.each(fixtureNames('tiny_whisper'))('%s, exported', (name) => {
  const { tensors, metadata } = mx.loadSafetensors(fixturePath(name));
  const golden = (tensor: string): MxArray => tensors.get(tensor)!;
  const config = parseConfig(JSON.parse(metadata.config));
  const [batch] = golden('prompt_ids').shape;
  const path = join(folder, name);
  const model = new Whisper(config);
  let session: Session;

  beforeAll(async () => {
    const weights = [...tensors].filter(([tensor]) => tensor.startsWith('w.'));
    model.load(sanitize(new Map(weights.map(([tensor, array]) => [tensor.slice(2), array]))));
    await exportModel(path, {
      model: { id: name },
      dtype: 'float32',
      ...whisperExport(model, { batch }),
    });
    session = loadExport(path).session();
  });

  async function logitsOf(ids: MxArray, past: number, wanted: number[]): Promise<MxArray> {
    const positions = mx.array(Int32Array.from(wanted));
    return (await session.run('decode', { ids, positions, past })).outputs.logits;
  }

  it('gives the features of the eager front end', async () => {
    for (const length of [400, 4321, 16_000]) {
      const samples = Float32Array.from({ length }, (_, i) => Math.sin(i * i * 1e-4));
      const { outputs } = await session.run('preprocess', { samples: mx.array(samples) });
      const eager = logMelSpectrogram(samples, { nMels: config.num_mel_bins });
      await expectClose(outputs.features, eager);
    }
  });

  it('gives the states and tokens of the reference', async () => {
    const features = mx.randomNormal(mx.randomKey(1), [
      batch,
      2 * config.max_source_positions,
      config.num_mel_bins,
    ]);
    const { outputs } = await session.run('encode', { features });
    const states = model.encoder.forward(features);
    await expectClose(outputs.states, states);
    // Of the reference implementation's own states.
    await session.run('cross_kv', { states: golden('encoder_out') });
    const prompt = golden('prompt_ids').astype('int32');
    const length = prompt.shape[1];
    const all = Array.from({ length }, (_, i) => i);
    await expectClose(await logitsOf(prompt, 0, all), golden('prompt_logits'));
    const expected = golden('greedy20');
    const rows: number[][] = Array.from({ length: batch }, () => []);
    let input = prompt;
    for (let past = 0; rows[0].length < expected.shape[1]; past += input.shape[1]) {
      if (past > 0)
        input = mx.array(
          Int32Array.from(rows, (row) => row.at(-1)!),
          [batch, 1],
        );
      const logits = await numbers(await logitsOf(input, past, [input.shape[1] - 1]));
      const size = config.vocab_size;
      rows.forEach((row, i) =>
        row.push(argmax(Float32Array.from(logits.slice(i * size, (i + 1) * size)))),
      );
    }
    expect(rows.flat()).toEqual(await numbers(expected));
  });

  it('decodes the next window in the same session', async () => {
    const states = golden('encoder_out').multiply(0.5);
    await session.run('cross_kv', { states });
    using window = new EncodedWindow(model.decoder, states);
    using cache = window.cache();
    const prompt = golden('prompt_ids').astype('int32');
    const eager = model.decoder.logits(model.decoder.forward(prompt, cache));
    const all = Array.from({ length: prompt.shape[1] }, (_, i) => i);
    await expectClose(await logitsOf(prompt, 0, all), eager);
  });

  it('needs few instructions for a step', () => {
    const { programs } = readExport(path);
    const decode = programs.find(({ method }) => method === 'decode')!;
    const [step] = decode.traces;
    expect(step.instructions.length).toBeLessThanOrEqual(5 + 24 * config.decoder_layers);
  });
});
