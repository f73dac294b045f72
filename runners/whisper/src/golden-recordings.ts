/** Goldens that are JSON: what the reference made of real recordings, and of texts. */
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { CheckpointError, mx, type MxArray } from '@mlx-runners/mlx-core';
import { findModel } from '@mlx-runners/hub';
import {
  compareFloats,
  compareIntegers,
  type GoldenChecker,
  type GoldenResult,
} from '@mlx-runners/runner';
import { decodeWav, logMelSpectrogram } from '@mlx-runners/speech';
import { loadTokenizer } from '@mlx-runners/text';
import { z } from 'zod';
import { EncodedWindow, type Whisper } from './model.js';
import { manifest } from './manifest.js';
import { loadRecogniser } from './pipeline.js';
import { decodeWindow, lookAt, firstLogits, type Recogniser } from './decode.js';
import { transcribeSettings } from './options.js';
import { transcribeSamples } from './transcribe.js';

const decoded = z.object({ ids: z.array(z.number()), text: z.string() });
const recordingsSchema = z.object({
  model: z.string(),
  wav_sha256: z.string(),
  cases: z.array(
    z.object({
      case: z.object({
        name: z.string(),
        start: z.number().optional(),
        end: z.number().optional(),
        pad: z.number().optional(),
        repeat: z.number().optional(),
      }),
      samples: z.number(),
      no_timestamps: decoded.optional(),
      timestamps: decoded.optional(),
      top5_first_no_timestamps: z.array(z.object({ id: z.number(), logit: z.number() })).optional(),
      language: z.object({ id: z.number(), prob: z.number() }).optional(),
      no_speech_prob: z.number().optional(),
      encoder_probe: z.object({ mean: z.number(), row100: z.array(z.number()) }).optional(),
    }),
  ),
});
type RecordingCase = z.infer<typeof recordingsSchema>['cases'][number];

const textsSchema = z.object({
  tokenizer: z.literal('whisper'),
  cases: z.array(
    z.object({
      text: z.string(),
      ids: z.array(z.number()),
      ids_special: z.array(z.number()),
      decoded: z.string(),
      decoded_skip: z.string(),
    }),
  ),
});

/** The recording that a golden was made from, looked for where recordings lie, by its hash. */
function findRecording(golden: string, sha256: string): Uint8Array {
  const workspace = fileURLToPath(
    new URL('../../../packages/test-fixtures/speech', import.meta.url),
  );
  const folders = [dirname(golden), join(dirname(golden), '..', 'speech'), workspace];
  for (const folder of folders.filter((each) => existsSync(each))) {
    for (const file of readdirSync(folder).filter((name) => name.endsWith('.wav'))) {
      const bytes = readFileSync(join(folder, file));
      if (createHash('sha256').update(bytes).digest('hex') === sha256) return bytes;
    }
  }
  throw new CheckpointError(
    `The recording of ${golden} (a .wav with sha256 ${sha256}) is not in ${folders.join(', ')}.`,
  );
}

function cut(
  samples: Float32Array,
  { start = 0, end, pad = 0, repeat = 1 }: RecordingCase['case'],
): Float32Array {
  const at = (seconds: number): number => Math.trunc(seconds * 16_000);
  const part = samples.subarray(at(start), end === undefined ? undefined : at(end));
  const whole = new Float32Array(at(pad) + repeat * part.length);
  for (let i = 0; i < repeat; i++) whole.set(part, at(pad) + i * part.length);
  return whole;
}

function scalar(value: number): { shape: number[]; data: number[] } {
  return { shape: [1], data: [value] };
}

function list(data: readonly number[]): { shape: number[]; data: readonly number[] } {
  return { shape: [data.length], data };
}

/** Compares probabilities and logits of real weights, whose references are rounded in print. */
function near(
  tensor: string,
  actual: number,
  expected: number,
  tolerance: number,
): Promise<GoldenResult> {
  return compareFloats(tensor, scalar(actual), scalar(expected), tolerance);
}

async function checkEncoder(
  name: string,
  states: MxArray,
  probe: NonNullable<RecordingCase['encoder_probe']>,
): Promise<GoldenResult[]> {
  using mean = states.mean();
  using row = mx.tidy(() => states.slice([0, 100, 0], [1, 101, probe.row100.length]).reshape([-1]));
  return [
    await near(`${name}.encoder_mean`, await mean.item(), probe.mean, 1e-3),
    await compareFloats(`${name}.encoder_row100`, row, list(probe.row100)),
  ];
}

/** Longer than a window: the seek loop without what Hugging Face leaves off by default. */
async function checkLongCase(
  recogniser: Recogniser<Whisper>,
  samples: Float32Array,
  reference: RecordingCase,
): Promise<GoldenResult> {
  const tokens: number[] = [];
  const options = {
    language: 'en',
    temperature: 0,
    conditionOnPreviousText: false,
    noSpeechThreshold: 1,
  };
  const settings = transcribeSettings(options, [...recogniser.special.languages.keys()]);
  for await (const segment of transcribeSamples(recogniser, samples, settings)) {
    tokens.push(...segment.tokens);
  }
  const expected = list(reference.timestamps?.ids ?? []);
  return await compareIntegers(`${reference.case.name}.timestamps`, list(tokens), expected);
}

async function checkCase(
  recogniser: Recogniser<Whisper>,
  samples: Float32Array,
  reference: RecordingCase,
): Promise<GoldenResult[]> {
  const { name } = reference.case;
  const { model, special } = recogniser;
  const padded = new Float32Array(2 * model.config.max_source_positions * 160);
  if (samples.length > padded.length) return [await checkLongCase(recogniser, samples, reference)];
  padded.set(samples);
  using states = mx.tidy(() => {
    const features = logMelSpectrogram(padded, { nMels: model.config.num_mel_bins });
    return model.encoder.forward(features.expandDims(0));
  });
  using encoded = new EncodedWindow(model.decoder, states);
  const results: GoldenResult[] = [];
  if (reference.encoder_probe)
    results.push(...(await checkEncoder(name, states, reference.encoder_probe)));
  if (reference.language) {
    const [first] = (await lookAt(recogniser, encoded)).languages;
    const id = special.languages.get(first.language)!;
    results.push(
      await compareIntegers(`${name}.language`, scalar(id), scalar(reference.language.id)),
    );
    results.push(
      await near(`${name}.language_prob`, first.probability, reference.language.prob, 1e-4),
    );
  }
  for (const mode of ['no_timestamps', 'timestamps'] as const) {
    const expected = reference[mode];
    if (!expected) continue;
    const { tokens, noSpeechProb } = await decodeWindow(recogniser, encoded, {
      task: 'transcribe',
      language: 'en',
      temperature: 0,
      bestOf: 1,
      prompt: [],
      timestamps: mode === 'timestamps',
      seed: 0,
    });
    results.push(await compareIntegers(`${name}.${mode}`, list(tokens), list(expected.ids)));
    if (mode === 'no_timestamps' && reference.no_speech_prob !== undefined) {
      results.push(
        await near(`${name}.no_speech_prob`, noSpeechProb, reference.no_speech_prob, 1e-3),
      );
    }
  }
  const top = reference.top5_first_no_timestamps;
  if (top) {
    const row = await firstLogits(recogniser, encoded, {
      task: 'transcribe',
      language: 'en',
      prompt: [],
      timestamps: false,
    });
    const actual = list(top.map(({ id }) => row[id]));
    results.push(
      await compareFloats(
        `${name}.first_logits`,
        actual,
        list(top.map(({ logit }) => logit)),
        1e-3,
      ),
    );
  }
  return results;
}

/** Whole recordings through real weights, features padded as Hugging Face does. */
const recordingsChecker: GoldenChecker = {
  matches: (fixture) => fixture.kind === 'json' && recordingsSchema.safeParse(fixture.json).success,
  async check(fixture) {
    if (fixture.kind !== 'json') return [];
    const golden = recordingsSchema.parse(fixture.json);
    const [samples] = decodeWav(findRecording(fixture.path, golden.wav_sha256)).samples;
    const recogniser = await loadRecogniser(golden.model, { device: 'cpu', dtype: 'float32' });
    const results: GoldenResult[] = [];
    for (const reference of golden.cases) {
      results.push(...(await checkCase(recogniser, cut(samples, reference.case), reference)));
    }
    recogniser.model.dispose();
    return results;
  },
};

/** Texts through the tokenizer of the default model. */
const textsChecker: GoldenChecker = {
  matches: (fixture) => fixture.kind === 'json' && textsSchema.safeParse(fixture.json).success,
  async check(fixture) {
    if (fixture.kind !== 'json') return [];
    const { cases } = textsSchema.parse(fixture.json);
    const { path } = await findModel(manifest.defaultModel, { models: manifest.models });
    const tokenizer = await loadTokenizer(path);
    const wrong = (expected: (reference: (typeof cases)[number]) => boolean): number =>
      cases.filter((reference) => !expected(reference)).length;
    const same = (a: readonly number[], b: readonly number[]): boolean => a.join() === b.join();
    const failures = {
      ids: wrong(({ text, ids }) => same(tokenizer.encode(text), ids)),
      ids_special: wrong(({ text, ids_special }) =>
        same(tokenizer.encode(text, { addSpecialTokens: true }), ids_special),
      ),
      decoded: wrong(
        ({ ids, decoded }) => tokenizer.decode(ids, { skipSpecialTokens: false }) === decoded,
      ),
      decoded_skip: wrong(({ ids, decoded_skip }) => tokenizer.decode(ids) === decoded_skip),
    };
    return await Promise.all(
      Object.entries(failures).map(([name, count]) =>
        compareIntegers(name, scalar(count), scalar(0)),
      ),
    );
  },
};

export const recordingCheckers: readonly GoldenChecker[] = [recordingsChecker, textsChecker];
