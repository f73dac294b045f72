/** Choosing tokens at a temperature, reproducibly. */
import { argmax, likelihoods, logSumExp, type Logits } from './logits.js';

/** Uniform numbers in [0, 1) from a seed: mulberry32 (Tommy Ettinger, public domain). */
export class RandomSource {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = this.#state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }
}

/** A token drawn with probability softmax(row / temperature). */
function draw(row: Logits, temperature: number, random: RandomSource): number {
  const { weights, total } = likelihoods(row, temperature);
  let rest = random.next() * total;
  for (let token = 0; token < weights.length; token++) {
    rest -= weights[token];
    if (rest < 0) return token;
  }
  return argmax(row);
}

/** The next token and its log-probability (at temperature 1, as Whisper scores transcripts). */
export function chooseToken(
  row: Logits,
  temperature: number,
  random: RandomSource,
): { token: number; logprob: number } {
  const token = temperature === 0 ? argmax(row) : draw(row, temperature, random);
  return { token, logprob: row[token] - logSumExp(row) };
}
