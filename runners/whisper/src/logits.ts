/**
 * What is done to logits before a token is chosen. Each function changes one row in place; a masked
 * logit is −∞. Follows the `LogitFilter`s of openai/whisper `whisper/decoding.py`.
 */

export type Logits = Float32Array;

// 2^-n for n = 0, 1, …; smaller powers than 2^-63 don't change a sum that holds a 1.
const powers = Float64Array.from({ length: 64 }, (_, n) => 2 ** -n);

/**
 * e^x for x ≤ 0, several times faster than Math.exp, which takes most of a decoding step otherwise:
 * 2^(n + f) with a polynomial for 2^f. Relative error below 4e-9; 0 below e^-43.
 */
export function expOfNegative(x: number): number {
  const exponent = x * -1.4426950408889634;
  if (!(exponent < 63)) return 0;
  const n = exponent | 0; // twice as fast as Math.trunc here
  // Taylor's series of e^y around the middle of y = −ln 2 · [0, 1).
  const y = (0.5 - (exponent - n)) * 0.6931471805599453;
  const series =
    1 +
    y * (1 + y * (1 / 2 + y * (1 / 6 + y * (1 / 24 + y * (1 / 120 + y * (1 / 720 + y / 5040))))));
  return series * Math.SQRT1_2 * powers[n];
}

function largestOf(row: Logits, start: number, end: number): number {
  let largest = -Infinity;
  for (let i = start; i < end; i++) if (row[i] > largest) largest = row[i];
  return largest;
}

/** log Σ e^x over part of a row; −∞ where all of it is masked. */
export function logSumExp(row: Logits, start = 0, end = row.length): number {
  const largest = largestOf(row, start, end);
  if (largest === -Infinity) return -Infinity;
  let sum = 0;
  for (let i = start; i < end; i++) sum += expOfNegative(row[i] - largest);
  return largest + Math.log(sum);
}

/** Probabilities of the tokens at a temperature, up to a factor, and their sum. */
export function likelihoods(
  row: Logits,
  temperature: number,
): { weights: Float64Array; total: number } {
  const largest = largestOf(row, 0, row.length);
  const weights = new Float64Array(row.length);
  let total = 0;
  for (let i = 0; i < row.length; i++) {
    weights[i] = expOfNegative((row[i] - largest) / temperature);
    total += weights[i];
  }
  return { weights, total };
}

/** Index of the largest logit; the first of equals. */
export function argmax(row: Logits): number {
  let best = 0;
  for (let i = 1; i < row.length; i++) if (row[i] > row[best]) best = i;
  return best;
}

/** Masks single tokens. */
export function suppress(row: Logits, tokens: Iterable<number>): void {
  for (const token of tokens) row[token] = -Infinity;
}

export interface TimestampRules {
  eot: number;
  noTimestamps: number;
  timestampBegin: number;
  /** How many steps of 20 ms after the window's start the first timestamp may lie. */
  maxInitialTimestamp: number | undefined;
}

/**
 * Makes timestamps come in pairs, increase, and win whenever together they are likelier than every
 * text token.
 *
 * @param sampled the tokens sampled so far, without the prompt
 */
export function applyTimestampRules(
  row: Logits,
  sampled: readonly number[],
  rules: TimestampRules,
): void {
  const { eot, noTimestamps, timestampBegin, maxInitialTimestamp } = rules;
  row[noTimestamps] = -Infinity;
  const isTimestamp = (token: number | undefined): boolean =>
    token !== undefined && token >= timestampBegin;
  const endsInTimestamp = isTimestamp(sampled.at(-1));
  const endsInPair = endsInTimestamp && (sampled.length < 2 || isTimestamp(sampled.at(-2)));
  if (endsInPair) row.fill(-Infinity, timestampBegin);
  else if (endsInTimestamp) row.fill(-Infinity, 0, eot);

  const last = sampled.findLast(isTimestamp);
  if (last !== undefined) {
    // An opened segment may close where it began only while it awaits its closing timestamp.
    row.fill(-Infinity, timestampBegin, endsInTimestamp && !endsInPair ? last : last + 1);
  }
  if (sampled.length === 0) {
    row.fill(-Infinity, 0, timestampBegin);
    if (maxInitialTimestamp !== undefined) {
      row.fill(-Infinity, timestampBegin + maxInitialTimestamp + 1);
    }
  }
  if (logSumExp(row, timestampBegin) > largestOf(row, 0, timestampBegin)) {
    row.fill(-Infinity, 0, timestampBegin);
  }
}
