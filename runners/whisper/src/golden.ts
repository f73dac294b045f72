/** What `whisper golden` can check: networks, tokens' alignment, timestamp rules, real weights. */
import { CheckpointError, mx, type MxArray } from '@mlx-runners/mlx-core';
import {
  compareFloats,
  compareIntegers,
  type GoldenChecker,
  type GoldenFixture,
  type GoldenResult,
  type TensorGolden,
} from '@mlx-runners/runner';
import type { Session } from '@mlx-runners/program';
import { logMelSpectrogram } from '@mlx-runners/speech';
import { dynamicTimeWarping, medianFilter } from './alignment.js';
import { sanitize } from './checkpoint.js';
import { parseConfig } from './config.js';
import { decodeExported, encodeExported, withExported } from './golden-exported.js';
import { recordingCheckers } from './golden-recordings.js';
import { applyTimestampRules, argmax, suppress } from './logits.js';
import { EncodedWindow, Whisper, type DecoderCache } from './model.js';

function tensorsOf(fixture: GoldenFixture): TensorGolden['tensors'] | undefined {
  return fixture.kind === 'tensors' ? fixture.tensors : undefined;
}

/** @throws CheckpointError when the golden lacks the tensor */
function required(fixture: GoldenFixture, name: string): MxArray {
  const tensor = tensorsOf(fixture)?.get(name);
  if (!tensor) throw new CheckpointError(`${fixture.path} has no tensor ${name}.`);
  return tensor;
}

async function numbers(tensor: MxArray): Promise<number[]> {
  return Array.from(await tensor.data(), Number);
}

/**
 * A network with weights `w.*`: features, encoder, logits, attention and greedy decoding, eagerly and as
 * an exported program.
 */
const networkChecker: GoldenChecker = {
  matches: (fixture) =>
    fixture.kind === 'tensors' &&
    fixture.metadata.config?.model_type === 'whisper' &&
    fixture.tensors.has('encoder_out'),
  async check(fixture) {
    const golden = fixture as TensorGolden;
    const { metadata, tensors } = golden;
    const config = parseConfig(metadata.config, 'The config in the golden');
    using model = new Whisper(config);
    const weights = [...tensors].filter(([name]) => name.startsWith('w.'));
    model.load(sanitize(new Map(weights.map(([name, tensor]) => [name.slice(2), tensor.copy()]))));
    const frames = 2 * config.max_source_positions;
    const results = await checkFeatures(golden, frames);
    using features = await featuresOf(golden, frames, config.num_mel_bins);
    using states = mx.tidy(() => model.encoder.forward(features));
    results.push(await compareFloats('encoder_out', states, required(golden, 'encoder_out')));
    results.push(...(await checkDecoder(model, states, golden)));
    return [...results, ...(await checkExported(model, features, golden))];
  },
};

/** Log-mel features [batch, frames, bands] of a golden's recordings, zero-padded to the window. */
async function featuresOf(fixture: TensorGolden, frames: number, nMels: number): Promise<MxArray> {
  const wav = required(fixture, 'wav');
  const samples = (await wav.data()) as Float32Array;
  const [batch, length] = wav.shape;
  return mx.tidy(() =>
    mx.stack(
      Array.from({ length: batch }, (_, i) => {
        const padded = new Float32Array(frames * 160);
        padded.set(samples.subarray(i * length, (i + 1) * length).subarray(0, padded.length));
        return logMelSpectrogram(padded, { nMels });
      }),
    ),
  );
}

async function checkFeatures(fixture: TensorGolden, frames: number): Promise<GoldenResult[]> {
  const results: GoldenResult[] = [];
  for (const nMels of [80, 128]) {
    const expected = fixture.tensors.get(`mel${nMels}`);
    if (!expected) continue;
    using computed = await featuresOf(fixture, frames, nMels);
    // References are [batch, bands, frames]; those of a band count the model lacks may be cut short.
    using comparable = mx.tidy(() =>
      computed.slice([0, 0, 0], [computed.shape[0], expected.shape[2], nMels]).swapaxes(1, 2),
    );
    // Bins at the floor depend on rounding in the FFT: see the goldens' README.
    results.push(await compareFloats(`mel${nMels}`, comparable, expected, 1e-3));
  }
  return results;
}

async function checkDecoder(
  model: Whisper,
  states: MxArray,
  fixture: TensorGolden,
): Promise<GoldenResult[]> {
  const prompt = required(fixture, 'prompt_ids').astype('int32');
  const results: GoldenResult[] = [];
  const scores: MxArray[] = [];
  using window = new EncodedWindow(model.decoder, states);
  using cache = window.cache();
  const logits = mx.tidy(() => {
    const all = model.decoder.logits(model.decoder.forward(prompt, cache, scores));
    scores.forEach(mx.keep);
    return all;
  });
  const ofPrompt = await compareFloats('prompt_logits', logits, required(fixture, 'prompt_logits'));
  results.push(ofPrompt);
  results.push(...(await checkAttention(scores, fixture)));
  for (const array of [...scores, logits]) array.dispose();
  const numericError = ofPrompt.absoluteError ?? 0;
  const eager = async (...rest: Continuation): Promise<number[]> => {
    using fresh = window.cache();
    return await greedy(eagerSteps(model, fresh), ...rest);
  };
  results.push(...(await checkContinuations('', prompt, fixture, numericError, eager)));
  prompt.dispose();
  return results;
}

/** The same reference tensors, computed by the exported model. */
async function checkExported(
  model: Whisper,
  features: MxArray,
  fixture: TensorGolden,
): Promise<GoldenResult[]> {
  using prompt = required(fixture, 'prompt_ids').astype('int32');
  const [batch, length] = prompt.shape;
  return await withExported(model, batch, async (session) => {
    using states = await encodeExported(session, features);
    const everywhere = Array.from({ length }, (_, i) => i);
    using logits = await decodeExported(session, prompt, 0, everywhere);
    const compare = (name: string, ours: MxArray): Promise<GoldenResult> =>
      compareFloats(`${exportedPrefix}${name}`, ours, required(fixture, name));
    const ofPrompt = await compare('prompt_logits', logits);
    const exported = (...rest: Continuation): Promise<number[]> =>
      greedy(exportedSteps(session), ...rest);
    const numericError = ofPrompt.absoluteError ?? 0;
    return [
      await compare('encoder_out', states),
      ofPrompt,
      ...(await checkContinuations(exportedPrefix, prompt, fixture, numericError, exported)),
    ];
  });
}

const exportedPrefix = 'exported ';

type Continuation = Parameters<typeof greedy> extends [Step, ...infer Rest] ? Rest : never;

async function checkContinuations(
  prefix: string,
  prompt: MxArray,
  fixture: TensorGolden,
  numericError: number,
  sample: (...rest: Continuation) => Promise<number[]>,
): Promise<GoldenResult[]> {
  const results: GoldenResult[] = [];
  for (const name of ['greedy20', 'greedy20_suppressed']) {
    const expected = fixture.tensors.get(name);
    if (!expected) continue;
    const suppressed = name.endsWith('suppressed')
      ? {
          always: await numbers(required(fixture, 'suppress_tokens')),
          first: await numbers(required(fixture, 'begin_suppress_tokens')),
        }
      : { always: [], first: [] };
    const sampled = await sample(prompt, expected.shape[1], suppressed);
    const margins = fixture.tensors.get(`${name}_margin`);
    const compared = { shape: expected.shape, data: sampled };
    const greedyMargins = margins && { margins, numericError };
    results.push(await compareIntegers(prefix + name, compared, expected, greedyMargins));
  }
  return results;
}

async function checkAttention(
  scores: readonly MxArray[],
  { tensors }: TensorGolden,
): Promise<GoldenResult[]> {
  const layer = tensors.get('cross_attn_layer');
  if (!layer) return [];
  const raw = scores[await layer.item()];
  using weights = raw.softmax(-1);
  const compared = [
    { name: 'cross_attn_qk', actual: raw },
    { name: 'cross_attn', actual: weights },
  ];
  const results: GoldenResult[] = [];
  for (const { name, actual } of compared) {
    const expected = tensors.get(name);
    if (expected) results.push(await compareFloats(name, actual, expected));
  }
  return results;
}

/** Logits [B, 1, vocabulary] after ids [B, T], which come after those of all steps before. */
type Step = (ids: MxArray) => Promise<MxArray>;

/** Argmax continuations of prompts [B, P] by `count` tokens, without a stop. */
async function greedy(
  step: Step,
  prompt: MxArray,
  count: number,
  suppressed: { always: readonly number[]; first: readonly number[] },
): Promise<number[]> {
  const [batch] = prompt.shape;
  const rows: number[][] = Array.from({ length: batch }, () => []);
  let input = prompt;
  for (let i = 0; i < count; i++) {
    const logits = await step(input);
    const values = (await logits.data()) as Float32Array;
    logits.dispose();
    const vocabulary = values.length / batch;
    for (const [j, row] of rows.entries()) {
      const own = values.subarray(j * vocabulary, (j + 1) * vocabulary);
      suppress(own, suppressed.always);
      if (i === 0) suppress(own, suppressed.first);
      row.push(argmax(own));
    }
    if (input !== prompt) input.dispose();
    input = mx.array(
      Int32Array.from(rows, (row) => row.at(-1)!),
      [batch, 1],
    );
  }
  input.dispose();
  return rows.flat();
}

/** Steps of the eager decoder; dispose the cache afterwards. */
function eagerSteps(model: Whisper, cache: DecoderCache): Step {
  return (ids) =>
    Promise.resolve(
      mx.tidy(() => {
        const hidden = model.decoder.forward(ids, cache);
        const [batch, length, width] = hidden.shape;
        return model.decoder.logits(hidden.slice([0, length - 1, 0], [batch, length, width]));
      }),
    );
}

/** Steps of the exported one. */
function exportedSteps(session: Session): Step {
  let past = 0;
  return async (ids) => {
    const length = ids.shape[1];
    const logits = await decodeExported(session, ids, past, [length - 1]);
    past += length;
    return logits;
  };
}

/** Median filter and dynamic time warping of a matrix [tokens, frames]. */
const alignmentChecker: GoldenChecker = {
  matches: (fixture) =>
    Boolean(tensorsOf(fixture)?.has('matrix') && tensorsOf(fixture)?.has('median7')),
  async check(fixture) {
    const matrix = required(fixture, 'matrix');
    const [rows, columns] = matrix.shape;
    const values = (await matrix.data()) as Float32Array;
    const filtered = medianFilter({ rows, columns, values }, 7);
    const negated = Float64Array.from(filtered.values, (value) => -value);
    const path = dynamicTimeWarping({ rows, columns, values: negated });
    const shape = [path.rows.length];
    return [
      await compareFloats(
        'median7',
        { shape: matrix.shape, data: filtered.values },
        required(fixture, 'median7'),
      ),
      await compareIntegers(
        'text_indices',
        { shape, data: path.rows },
        required(fixture, 'text_indices'),
      ),
      await compareIntegers(
        'time_indices',
        { shape, data: path.columns },
        required(fixture, 'time_indices'),
      ),
    ];
  },
};

/** Which logits the timestamp rules mask, for hand-made sequences. */
const rulesChecker: GoldenChecker = {
  matches: (fixture) =>
    Boolean(tensorsOf(fixture)?.has('masked') && tensorsOf(fixture)?.has('no_timestamps')),
  async check(fixture) {
    const scores = required(fixture, 'scores');
    const [count, vocabulary] = scores.shape;
    const values = (await scores.data()) as Float32Array;
    const ids = await numbers(required(fixture, 'ids'));
    const lengths = await numbers(required(fixture, 'ids_len'));
    const begin = await required(fixture, 'begin_index').item();
    const noTimestamps = await required(fixture, 'no_timestamps').item();
    const rules = {
      eot: await required(fixture, 'eos').item(),
      noTimestamps,
      timestampBegin: noTimestamps + 1,
      maxInitialTimestamp: await required(fixture, 'max_initial').item(),
    };
    const width = ids.length / count;
    const masked = Array.from({ length: count }, (_, i) => {
      const row = values.slice(i * vocabulary, (i + 1) * vocabulary);
      applyTimestampRules(row, ids.slice(i * width + begin, i * width + lengths[i]), rules);
      return Array.from(row, (logit) => Number(logit === -Infinity));
    });
    const compared = { shape: scores.shape, data: masked.flat() };
    return [await compareIntegers('masked', compared, required(fixture, 'masked'))];
  },
};

export const goldenCheckers: readonly GoldenChecker[] = [
  networkChecker,
  alignmentChecker,
  rulesChecker,
  ...recordingCheckers,
];
