/** Sampling written down plainly: lists of tokens, sorted whole; what the distribution must be. */

import type { SamplingOptions } from '@mlx-runners/lm';

interface Token {
  id: number;
  logit: number;
  p: number;
}

/** The probability of each token. */
export function distribution(
  logits: readonly number[],
  options: SamplingOptions,
  completion: readonly number[] = [],
): number[] {
  const changed = logits.map((logit, id) => {
    let value = logit + ((options.logitBias as Record<number, number> | undefined)?.[id] ?? 0);
    const count = completion.filter((token) => token === id).length;
    if (count > 0) {
      const penalty = options.repetitionPenalty ?? 1;
      value = value > 0 ? value / penalty : value * penalty;
      value -= options.presencePenalty ?? 0;
      value -= (options.frequencyPenalty ?? 0) * count;
    }
    return value;
  });
  let tokens = normalised(changed.map((logit, id) => ({ id, logit, p: 0 })));
  tokens.sort(byLogit);
  if (options.topK) tokens = normalised(tokens.slice(0, options.topK));
  if (options.typicalP != null) tokens = typical(tokens, options.typicalP);
  if (options.topP != null) tokens = until(tokens, options.topP);
  const { minP } = options;
  if (minP != null) {
    const most = Math.max(...tokens.map(({ p }) => p));
    tokens = normalised(tokens.filter(({ p }) => p >= minP * most * (1 - 1e-12)));
  }
  const often = options.xtcProbability ?? 0;
  const kept = often > 0 ? withoutTop(tokens, options.xtcThreshold ?? 0.1) : tokens;
  const result = logits.map(() => 0);
  for (const [list, part] of [
    [kept, often],
    [tokens, 1 - often],
  ] as const) {
    const heated = list.map((token) => ({
      ...token,
      logit: token.logit / (options.temperature ?? 1),
    }));
    for (const { id, p } of normalised(heated)) result[id] += part * p;
  }
  return result;
}

function byLogit(a: Token, b: Token): number {
  return b.logit - a.logit || a.id - b.id;
}

function normalised(tokens: Token[]): Token[] {
  const max = Math.max(...tokens.map(({ logit }) => logit));
  const sum = tokens.reduce((total, { logit }) => total + Math.exp(logit - max), 0);
  return tokens.map((token) => ({ ...token, p: Math.exp(token.logit - max) / sum }));
}

function until(tokens: Token[], mass: number): Token[] {
  let sum = 0;
  const end = tokens.findIndex(({ p }) => (sum += p) >= mass - 1e-12);
  return normalised(tokens.slice(0, end < 0 ? tokens.length : end + 1));
}

function typical(tokens: Token[], mass: number): Token[] {
  const entropy = tokens.reduce((sum, { p }) => sum - (p > 0 ? p * Math.log(p) : 0), 0);
  const distance = ({ p }: Token) => Math.abs(-Math.log(p) - entropy);
  const sorted = [...tokens].sort((a, b) => distance(a) - distance(b) || a.id - b.id);
  return until(sorted, mass).sort(byLogit);
}

function withoutTop(tokens: Token[], threshold: number): Token[] {
  const above = [...tokens].sort(byLogit).filter(({ p }) => p >= threshold);
  const excluded = above.slice(0, -1).map(({ id }) => id);
  return normalised(tokens.filter(({ id }) => !excluded.includes(id)));
}

/**
 * How unlikely counts are where the probabilities are as expected: a chi-square statistic as a standard normal
 * number (Wilson and Hilferty 1931). Above 5 in one of 3.5 million cases.
 */
export function surprise(counts: readonly number[], expected: readonly number[]): number {
  const total = counts.reduce((sum, count) => sum + count, 0);
  let statistic = 0;
  let cells = 0;
  // Rare tokens count together: the approximation takes about 5 of each.
  let rest = { count: 0, expected: 0 };
  counts.forEach((count, id) => {
    if (expected[id] === 0) {
      if (count > 0) statistic = Infinity;
    } else if (expected[id] * total < 5) {
      rest = { count: rest.count + count, expected: rest.expected + expected[id] * total };
    } else {
      statistic += (count - expected[id] * total) ** 2 / (expected[id] * total);
      cells++;
    }
  });
  if (rest.expected > 0) {
    statistic += (rest.count - rest.expected) ** 2 / Math.max(rest.expected, 1);
    cells++;
  }
  const freedom = Math.max(1, cells - 1);
  return (
    ((statistic / freedom) ** (1 / 3) - (1 - 2 / (9 * freedom))) / Math.sqrt(2 / (9 * freedom))
  );
}
