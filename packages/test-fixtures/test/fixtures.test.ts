import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import {
  FixtureError,
  fixtureNames,
  fixturePath,
  readJsonFixture,
  readTensorFixture,
  speechPath,
} from '@mlx-runners/test-fixtures';
import { expect, test } from 'vitest';

test('names can be narrowed by a prefix', () => {
  expect(fixtureNames('tiny_whisper_')).toEqual([
    'tiny_whisper_128_ctx200.safetensors',
    'tiny_whisper_80.safetensors',
  ]);
  expect(fixtureNames('nothing')).toEqual([]);
});

test('an unknown fixture fails with the known names', () => {
  expect(() => fixturePath('tiny_whisper.safetensors')).toThrow(FixtureError);
  expect(() => fixturePath('../package.json')).toThrow(/tiny_whisper_80\.safetensors/);
  expect(() => speechPath('nobody.wav')).toThrow(/jfk\.wav/);
});

test.each(fixtureNames().filter((name) => name.endsWith('.safetensors')))(
  '%s is whole and says where it comes from',
  (name) => {
    const file = readTensorFixture(name);
    expect(file.metadata.source).toMatch(/seed \d+; transformers 5\.24\.0/);
    expect(file.tensors.size).toBeGreaterThan(3);
  },
);

test('the speech is the recording that the transcriptions were made from', () => {
  const { wav_sha256, cases } = readJsonFixture('real_whisper_base.json');
  const wav = readFileSync(speechPath());
  expect(createHash('sha256').update(wav).digest('hex')).toBe(wav_sha256);

  const dataStart = wav.indexOf('data') + 8;
  const pcm = new Int16Array(new Uint8Array(wav.subarray(dataStart)).buffer);
  const samples = Float32Array.from(pcm, (x) => x / 32768);
  expect(samples).toHaveLength(cases[0].samples);
  expect(createHash('sha256').update(samples).digest('hex')).toBe(cases[0].samples_sha256);
});

test('the tokenizer fixture has its 30 strings', () => {
  const { cases } = readJsonFixture('tokenizer_whisper.json');
  expect(cases).toHaveLength(30);
  expect(cases[0]).toMatchObject({ text: 'Hello, world!', ids: [15947, 11, 1002, 0] });
});
