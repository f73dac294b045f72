import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CheckpointError, mx, ProgramError } from '@mlx-runners/mlx-core';
import { exportModel } from '@mlx-runners/program';
import { whiteNoise } from '@mlx-runners/test-fixtures';
import { load } from '@mlx-runners/whisper';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { loadForExport } from '../src/export-subject.js';
import { huggingFaceFiles } from './tiny-model.js';

const folder = mkdtempSync(join(tmpdir(), 'whisper-exported-'));
afterAll(() => rmSync(folder, { recursive: true }));

const [original, exported] = [join(folder, 'original'), join(folder, 'exported')];

beforeAll(async () => {
  mkdirSync(original);
  for (const [name, bytes] of Object.entries(huggingFaceFiles())) {
    writeFileSync(join(original, name), bytes);
  }
  const subject = await loadForExport({ model: original });
  await exportModel(exported, subject.description);
  await subject.dispose();
});

// Noise that comes and goes, so that it counts as speech.
const noise = whiteNoise(1, { seed: 3 }).map((x, i) => x * (Math.floor(i / 800) % 2));
const audio = { samples: noise, sampleRate: 16_000 };

describe('an exported model', () => {
  it.each([
    ['greedily', { temperature: [0] }],
    ['by sampling several candidates', { temperature: [0.9], bestOf: 3, seed: 5 }],
  ])('transcribes as the original does, %s', async (_, options) => {
    await using eager = await load(original, { device: 'cpu' });
    await using ours = await load(exported, { device: 'cpu' });
    const settings = { ...options, language: 'en' };
    const expected = await eager.transcribe(audio, settings).result();
    const actual = await ours.transcribe(audio, settings).result();
    expect(actual.segments.map(({ tokens }) => tokens)).toEqual(
      expected.segments.map(({ tokens }) => tokens),
    );
    expect(actual.text).toBe(expected.text);
    expect(expected.segments.length).toBeGreaterThan(0);
    expect(ours.languages).toEqual(eager.languages);
  });

  it('leaves no arrays behind', async () => {
    await using model = await load(exported, { device: 'cpu' });
    await model.transcribe(audio).result();
    const { arrays } = mx.memory();
    await model.transcribe(audio).result();
    expect(mx.memory().arrays).toBe(arrays);
  });

  it('of something else is refused', async () => {
    const other = join(folder, 'other');
    await exportModel(other, {
      model: { id: 'other' },
      dtype: 'float32',
      parameters: new Map(),
      methods: { run: { inputs: {}, run: () => ({ y: mx.ones([1]) }) } },
    });
    await expect(load(other)).rejects.toThrow(CheckpointError);
    writeFileSync(join(other, 'manifest.json'), '{}');
    await expect(load(other)).rejects.toThrow(ProgramError);
  });
});
