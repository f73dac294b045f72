import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { AbortedError, AudioError, DisposedError, mx, UsageError } from '@mlx-runners/mlx-core';
import { whiteNoise } from '@mlx-runners/test-fixtures';
import {
  load,
  type LoadOptions,
  type TranscribeOptions,
  type WhisperModel,
} from '@mlx-runners/whisper';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { huggingFaceFiles } from './tiny-model.js';

// Noise that comes and goes, so that it counts as speech: some windows of the tiny model's 0.2 s.
const noise = whiteNoise(1, { seed: 3 }).map((x, i) => x * (Math.floor(i / 800) % 2));
const audio = { samples: noise, sampleRate: 16_000 };
const options = { temperature: 0 };

let folder: string;
let model: WhisperModel;
let before: ReturnType<typeof mx.memory>;
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'whisper-transcription-'));
  for (const [name, bytes] of Object.entries(huggingFaceFiles())) {
    writeFileSync(join(folder, name), bytes);
  }
  model = await load(folder, { device: 'cpu' });
  before = mx.memory();
});
afterEach(async () => {
  await model.dispose();
  rmSync(folder, { recursive: true });
});

/** Arrays, and the bytes that they take. */
function expectNothingLeft(): void {
  const { arrays, active } = mx.memory();
  expect({ arrays, active }).toEqual({ arrays: before.arrays, active: before.active });
}

async function collected<T>(stream: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const each of stream) all.push(each);
  return all;
}

describe('a transcription', () => {
  it('gives all segments to every loop and result, and is computed once', async () => {
    let windows = 0;
    const transcription = model.transcribe(audio, { ...options, onProgress: () => windows++ });
    const first = await collected(transcription);
    const computed = windows;
    expect(first.length).toBeGreaterThan(1);
    expect(await collected(transcription)).toEqual(first);
    const { segments, text, duration } = await transcription.result();
    expect(segments).toEqual(first);
    expect(text).toBe(
      first
        .map((segment) => segment.text)
        .join('')
        .trim(),
    );
    expect(duration).toBe(1);
    expect(windows).toBe(computed);
    expectNothingLeft();
  });

  it('serves several at once', async () => {
    const transcription = model.transcribe(audio, options);
    const [one, two, { segments }] = await Promise.all([
      collected(transcription),
      collected(transcription),
      transcription.result(),
    ]);
    expect(one.length).toBeGreaterThan(1);
    expect(two).toEqual(one);
    expect(segments).toEqual(one);
  });

  it('stops when its loop is left, and says so later', async () => {
    const transcription = model.transcribe(audio, options);
    const seen: string[] = [];
    for await (const { text } of transcription) {
      seen.push(text);
      break;
    }
    expectNothingLeft();
    await expect(transcription.result()).rejects.toThrow(AbortedError);
    await expect(transcription.result()).rejects.toThrow(/leaving its loop early/);
    const again: string[] = [];
    await expect(async () => {
      for await (const { text } of transcription) again.push(text);
    }).rejects.toThrow(AbortedError);
    expect(again).toEqual(seen);
  });

  it('goes on for others when one leaves', async () => {
    const transcription = model.transcribe(audio, options);
    const whole = transcription.result();
    for await (const segment of transcription) {
      expect(segment.id).toBe(0);
      break;
    }
    expect((await whole).segments.length).toBeGreaterThan(1);
  });

  it('fails for everyone who asks', async () => {
    const transcription = model.transcribe(join(folder, 'none.wav'));
    for (const attempt of [0, 1]) {
      const failing = attempt ? collected(transcription) : transcription.result();
      await expect(failing).rejects.toThrow(AudioError);
    }
  });

  it('is right while others run on the same model', async () => {
    const parts = [0, 1, 2].map((i) => ({ ...audio, samples: noise.subarray(i * 3000) }));
    const alone: unknown[] = [];
    for (const part of parts) alone.push(await model.transcribe(part, options).result());
    const together = parts.map((part) => model.transcribe(part, options).result());
    expect(await Promise.all(together)).toEqual(alone);
    expectNothingLeft();
  });

  it('leaves nothing behind, run after run', async () => {
    const transcripts = new Set<string>();
    for (let run = 0; run < 20; run++) {
      const whole = await model.transcribe(audio, { temperature: [0, 0.5], bestOf: 2 }).result();
      transcripts.add(JSON.stringify(whole));
      expectNothingLeft();
    }
    expect(transcripts.size).toBe(1);
  });

  it('leaves nothing behind, whenever it is aborted', async () => {
    let aborted = 0;
    for (const turns of [0, 1, 2, 3, 5, 8, 13, 21, 34]) {
      const controller = new AbortController();
      const running = model.transcribe(audio, { bestOf: 2, signal: controller.signal }).result();
      const outcome = running.catch((error: unknown) => error);
      for (let turn = 0; turn < turns; turn++) await setImmediate();
      controller.abort();
      if ((await outcome) instanceof AbortedError) aborted += 1;
      expectNothingLeft();
    }
    expect(aborted).toBeGreaterThan(3);
  });
});

describe('a model that is disposed', () => {
  it('while it transcribes ends the transcription with a DisposedError, and leaves nothing', async () => {
    const disposeSoon = (): void => void model.dispose();
    const running = model.transcribe(audio, { ...options, onProgress: disposeSoon }).result();
    await expect(running).rejects.toThrow(
      new DisposedError('The model was disposed before the transcription had ended.'),
    );
    expect(mx.memory().arrays).toBeLessThan(before.arrays);
  });

  it('whenever that is', async () => {
    await model.dispose();
    const { arrays } = mx.memory();
    for (const turns of [0, 1, 2, 4, 8, 16]) {
      const other = await load(folder, { device: 'cpu' });
      const running = other.transcribe(audio, { bestOf: 2 }).result();
      const outcome = running.catch((error: unknown) => error);
      for (let turn = 0; turn < turns; turn++) await setImmediate();
      await other.dispose();
      const reason = await outcome;
      if (reason instanceof Error) expect(reason).toBeInstanceOf(DisposedError);
      expect(mx.memory().arrays).toBe(arrays);
    }
  });

  it('takes no more work', async () => {
    await model.dispose();
    await model.dispose();
    expect(() => model.transcribe(audio)).toThrow(DisposedError);
  });
});

describe('options', () => {
  it.each<[unknown, RegExp]>([
    [{ languge: 'en' }, /^transcribe\(\) has no option languge: did you mean language\?$/],
    [{ language: 'xx' }, /^There is no language xx\. The model knows only en\.$/],
    [{ language: 42 }, /^language must be a text/],
    [{ task: 'sing' }, /^task must be one of transcribe, translate, not 'sing'/],
    [{ task: 'translate' }, /English-only/],
    [{ temperature: NaN }, /^temperature must be a number .* or a list of them, not NaN/],
    [{ temperature: [] }, /^temperature must/],
    [{ temperature: [0, -1] }, /^temperature must/],
    [{ bestOf: '3' }, /^bestOf must be a whole number from 1 to 64, not '3'/],
    [{ bestOf: 0 }, /^bestOf must/],
    [{ noSpeechThreshold: 2 }, /^noSpeechThreshold must be a number of at least 0 and at most 1/],
    [{ logprobThreshold: Infinity }, /^logprobThreshold must be a number/],
    [{ conditionOnPreviousText: 'no' }, /^conditionOnPreviousText must be true or false/],
    [{ initialPrompt: 1 }, /^initialPrompt must be a text/],
    [{ seed: -1 }, /^seed must be a whole number/],
    [{ signal: {} }, /^signal must be an AbortSignal/],
    [{ onProgress: true }, /^onProgress must be a function/],
    [null, /^The options of transcribe\(\) must be an object, not null/],
    [{ temperature: new Array<number>(3) }, /temperature must be a number/],
  ])('%j is refused at once', (wrong, message) => {
    const transcribe = () => model.transcribe(audio, wrong as TranscribeOptions);
    expect(transcribe).toThrow(UsageError);
    expect(transcribe).toThrow(message);
  });

  it('that are undefined have their defaults', async () => {
    const unset = { task: undefined, bestOf: undefined, temperature: undefined, seed: undefined };
    const whole = await model.transcribe(audio, unset).result();
    expect(whole).toEqual(await model.transcribe(audio).result());
  });

  it.each<[unknown, unknown, RegExp]>([
    [undefined, {}, /^load\(\) takes the id of a model or the path of its folder, not nothing/],
    ['', {}, /^load\(\) takes the id/],
    ['x', { dtype: 'int8' }, /^dtype must be one of float32, float16, bfloat16, not 'int8'/],
    ['x', { quantize: 4 }, /^load\(\) has no option quantize: there are device, dtype/],
    ['x', null, /^The options of load\(\) must be an object/],
  ])('load(%j, %j) is refused', async (id, wrong, message) => {
    const loading = load(id as string, wrong as LoadOptions);
    await expect(loading).rejects.toThrow(UsageError);
    await expect(loading).rejects.toThrow(message);
  });

  it('audio of the wrong type is an AudioError', async () => {
    for (const wrong of [null, 7, {}, { samples: Float64Array.of(0), sampleRate: 16_000 }]) {
      await expect(model.transcribe(wrong as never).result()).rejects.toThrow(AudioError);
    }
  });

  it('loading ends with the signal', async () => {
    const loading = load(folder, { signal: AbortSignal.abort() });
    await expect(loading).rejects.toThrow(AbortedError);
    expectNothingLeft();
  });
});
