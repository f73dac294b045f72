/**
 * Decoding one window of audio. Follows `DecodingTask` in openai/whisper `whisper/decoding.py` for
 * greedy decoding and sampling.
 */
import { deflateSync } from 'node:zlib';
import { throwIfAborted } from '@mlx-runners/mlx-core';
import type { Tokenizer } from '@mlx-runners/text';
import { applyTimestampRules, logSumExp, suppress, type Logits } from './logits.js';
import type { AudioWindow, SpeechNetwork } from './network.js';
import { chooseToken, RandomSource } from './sampling.js';
import { textOf, timePrecision, type SpecialTokens, type Task } from './tokens.js';

/** A model with all that decoding needs to know of it. */
export interface Recogniser<Network extends SpeechNetwork = SpeechNetwork> {
  model: Network;
  tokenizer: Tokenizer;
  special: SpecialTokens;
  /** Tokens that are never sampled. */
  suppressed: readonly number[];
}

export interface DecodeOptions {
  task: Task;
  /** Language code; ignored by English-only models. */
  language: string;
  temperature: number;
  /** Candidates at a temperature above 0; the likeliest is taken. */
  bestOf: number;
  /** What was said before, as tokens; its end is used. */
  prompt: readonly number[];
  timestamps: boolean;
  seed: number;
  signal?: AbortSignal;
}

export interface DecodeResult {
  /** Without prompt and end of text. */
  tokens: number[];
  text: string;
  temperature: number;
  avgLogprob: number;
  compressionRatio: number;
  noSpeechProb: number;
}

// The first timestamp lies within the first second of a window.
const maxInitialTimestamp = Math.round(1.0 / timePrecision);

interface Candidate {
  tokens: number[];
  logprob: number;
  done: boolean;
}

/** The tokens before the first sampled one. */
export function promptTokens(
  { model, special }: Recogniser,
  {
    task,
    language,
    prompt,
    timestamps,
  }: Pick<DecodeOptions, 'task' | 'language' | 'prompt' | 'timestamps'>,
): number[] {
  const { languages, sot, sotPrev, noTimestamps } = special;
  const start = [sot];
  const languageToken = languages.get(language);
  if (languageToken !== undefined) start.push(languageToken, special[task]);
  if (!timestamps) start.push(noTimestamps);
  if (prompt.length === 0) return start;
  const room = Math.floor(model.config.max_target_positions / 2) - 1;
  return [sotPrev, ...prompt.slice(-room), ...start];
}

/** Bytes of the text over bytes of it compressed: high when it repeats itself. */
export function compressionRatio(text: string): number {
  const bytes = Buffer.from(text);
  return bytes.length / deflateSync(bytes).length;
}

/** Masks a row and appends the chosen token to its candidate. */
function extend(
  candidate: Candidate,
  row: Logits,
  task: Recogniser,
  options: DecodeOptions,
  random: RandomSource,
): void {
  const { special, suppressed, tokenizer } = task;
  if (candidate.done) return;
  if (candidate.tokens.length === 0) suppress(row, [...tokenizer.encode(' '), special.eot]);
  suppress(row, suppressed);
  if (options.timestamps) {
    applyTimestampRules(row, candidate.tokens, { ...special, maxInitialTimestamp });
  }
  const { token, logprob } = chooseToken(row, options.temperature, random);
  candidate.logprob += logprob;
  candidate.done = token === special.eot;
  if (!candidate.done) candidate.tokens.push(token);
}

function probability(row: Logits, token: number): number {
  return Math.exp(row[token] - logSumExp(row));
}

function likeliest(candidates: readonly Candidate[]): Candidate {
  const score = ({ logprob, tokens }: Candidate): number => logprob / Math.max(1, tokens.length);
  return candidates.reduce((best, next) => (score(next) > score(best) ? next : best));
}

/**
 * Transcribes one window at one temperature.
 *
 * @throws AbortedError when the signal fires, between two steps
 */
export async function decodeWindow(
  recogniser: Recogniser,
  window: AudioWindow,
  options: DecodeOptions,
): Promise<DecodeResult> {
  const { model, special, tokenizer } = recogniser;
  const { temperature } = options;
  const prompt = promptTokens(recogniser, options);
  const random = new RandomSource(options.seed);
  const longest = model.config.max_target_positions;
  const count = temperature > 0 ? options.bestOf : 1;
  const candidates = Array.from({ length: count }, (): Candidate => ({
    tokens: [],
    logprob: 0,
    done: false,
  }));

  using decoding = window.decode();
  const sotAt = prompt.indexOf(special.sot);
  const [atSot, first] = await decoding.step([prompt], [sotAt, prompt.length - 1]);
  const noSpeechProb = probability(atSot, special.noSpeech);
  for (const candidate of candidates) {
    extend(candidate, first.slice(), recogniser, options, random);
  }
  if (count > 1) await decoding.repeat(count);

  const limit = Math.min(Math.floor(longest / 2), longest - prompt.length);
  for (let length = 1; length < limit && candidates.some(({ done }) => !done); length++) {
    throwIfAborted(options.signal);
    const ids = candidates.map(({ tokens, done }) => [done ? special.eot : tokens.at(-1)!]);
    const rows = await decoding.step(ids, [0]);
    for (const [i, candidate] of candidates.entries()) {
      extend(candidate, rows[i], recogniser, options, random);
    }
  }

  const { tokens, logprob } = likeliest(candidates);
  const text = textOf(tokenizer, tokens, special.eot).trim();
  return {
    tokens,
    text,
    temperature,
    avgLogprob: logprob / (tokens.length + 1),
    compressionRatio: text ? compressionRatio(text) : 0,
    noSpeechProb,
  };
}

/** The logits after the prompt, before anything is masked: [vocabulary]. */
export async function firstLogits(
  recogniser: Recogniser,
  window: AudioWindow,
  options: Parameters<typeof promptTokens>[1],
): Promise<Logits> {
  using decoding = window.decode();
  const prompt = promptTokens(recogniser, options);
  const [row] = await decoding.step([prompt], [prompt.length - 1]);
  return row;
}

/** What the model makes of a window before it decodes it. */
export interface FirstLook {
  noSpeechProb: number;
  /** Most likely first; empty for English-only models. */
  languages: { language: string; probability: number }[];
}

/** No-speech and language probabilities: one step of the decoder. */
export async function lookAt({ special }: Recogniser, window: AudioWindow): Promise<FirstLook> {
  using decoding = window.decode();
  const [row] = await decoding.step([[special.sot]], [0]);
  const entries = [...special.languages];
  const logits = Float32Array.from(entries, ([, token]) => row[token]);
  const total = logSumExp(logits);
  const languages = entries
    .map(([language], i) => ({ language, probability: Math.exp(logits[i] - total) }))
    .sort((a, b) => b.probability - a.probability);
  return { noSpeechProb: probability(row, special.noSpeech), languages };
}
