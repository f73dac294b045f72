import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CheckpointError, mx } from '@mlx-runners/mlx-core';
import {
  byteMutations,
  expectRefusal,
  fuzz,
  inSafetensorsHeader,
  jsonMutations,
  whiteNoise,
  type Files,
  type Mutation,
  type Reading,
} from '@mlx-runners/test-fixtures';
import { load, type WhisperModel } from '@mlx-runners/whisper';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { cTranslate2Files, huggingFaceFiles } from './tiny-model.js';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'whisper-fuzz-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

const audio = { samples: whiteNoise(0.1, { seed: 1 }), sampleRate: 16_000 };

/** Loads a folder of just these files and lets it transcribe, or refuses it by its name. */
async function read(files: Files): Promise<Reading> {
  for (const [name, bytes] of Object.entries(files)) writeFileSync(join(folder, name), bytes);
  const { arrays, active } = mx.memory();
  let model: WhisperModel;
  try {
    model = await load(folder);
  } catch (error) {
    expectRefusal(error, CheckpointError, folder);
    expect(mx.memory()).toMatchObject({ arrays, active });
    return 'refused';
  }
  try {
    const { text } = await model.transcribe(audio, { temperature: [0] }).result();
    expect(typeof text).toBe('string');
  } finally {
    await model.dispose();
  }
  expect(mx.memory()).toMatchObject({ arrays, active });
  return 'read';
}

function mutationsOf(file: string): readonly Mutation[] {
  if (file.endsWith('.json')) return [...jsonMutations, ...jsonMutations, ...byteMutations];
  if (file.endsWith('.bin')) return byteMutations;
  return [...byteMutations, ...jsonMutations.map(inSafetensorsHeader)];
}

test.each([
  ['Hugging Face', 'whisper-huggingface', huggingFaceFiles],
  ['CTranslate2', 'whisper-ctranslate2', cTranslate2Files],
])('damaged folders of %s load or are refused', async (_, name, files) => {
  await fuzz({
    name,
    cases: 50,
    inputs: [files()],
    mutationsOf,
    read,
  });
});
