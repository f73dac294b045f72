/**
 * What is done to logits before a token is chosen. Each function changes one row in place; a masked
 * logit is −∞. Follows the `LogitFilter`s of openai/whisper `whisper/decoding.py`.
 */

export type Logits = Float32Array;

/** log Σ e^x over part of a row, in double precision; −∞ where all of it is masked. */
export function logSumExp(row: Logits, start = 0, end = row.length): number {
  let largest = -Infinity;
  for (let i = start; i < end; i++) if (row[i] > largest) largest = row[i];
  if (largest === -Infinity) return -Infinity;
  let sum = 0;
  for (let i = start; i < end; i++) sum += Math.exp(row[i] - largest);
  return largest + Math.log(sum);
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
  let likeliestText = -Infinity;
  for (let i = 0; i < timestampBegin; i++) if (row[i] > likeliestText) likeliestText = row[i];
  if (logSumExp(row, timestampBegin) > likeliestText) row.fill(-Infinity, 0, timestampBegin);
}
