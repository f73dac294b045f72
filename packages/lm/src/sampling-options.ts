import { nearestName, UsageError } from '@mlx-runners/mlx-core/errors';

/** How the next token is drawn. A field that is left out, undefined or null has its default. */
export interface SamplingOptions {
  /** The logits are divided by it. 0 takes the likeliest token, whatever else is set but penalties and biases. Default 1. */
  temperature?: number | null;
  /** Only so many of the likeliest tokens; 0 for all. Default 0. */
  topK?: number | null;
  /** Only the likeliest tokens that together have this probability, 0 to 1. Default 1: all. */
  topP?: number | null;
  /** Only tokens at least so likely, as a part (0 to 1) of the likeliest one's probability. Default 0: all. */
  minP?: number | null;
  /** Only the most typical tokens that together have this probability, 0 to 1 (Meister et al. 2022). Default 1: all. */
  typicalP?: number | null;
  /** How often, 0 to 1, all tokens above `xtcThreshold` but the least likely of them are left out. Default 0. */
  xtcProbability?: number | null;
  /** 0 to 0.5. Default 0.1. */
  xtcThreshold?: number | null;
  /** Divides the positive logits of tokens that the completion has, multiplies their negative ones. Default 1: none. */
  repetitionPenalty?: number | null;
  /** Subtracted from the logits of tokens that the completion has, −2 to 2. Default 0. */
  presencePenalty?: number | null;
  /** The same, times how often it has them, −2 to 2. Default 0. */
  frequencyPenalty?: number | null;
  /** Added to logits, by token id, −100 to 100 or −Infinity. Ids that the model lacks count for nothing. */
  logitBias?: ReadonlyMap<number, number> | Readonly<Record<number, number>> | null;
  /** An integer, taken modulo 2⁶⁴: with the same one, a request gets the same tokens. Default: a new one. */
  seed?: number | bigint | null;
  /** Whether to tell each token's log-probability, before all that these options change. Default false. */
  logprobs?: boolean | null;
  /** Of how many of the likeliest tokens to tell it besides, 0 to 20; takes `logprobs`. Default 0. */
  topLogprobs?: number | null;
}

interface Range {
  fallback: number;
  low: number;
  high: number;
  isInteger?: true;
  /** Whether `low` itself is no valid value. */
  isOpen?: true;
}

const RANGES = {
  temperature: { fallback: 1, low: 0, high: Infinity },
  topK: { fallback: 0, low: 0, high: Infinity, isInteger: true },
  topP: { fallback: 1, low: 0, high: 1 },
  minP: { fallback: 0, low: 0, high: 1 },
  typicalP: { fallback: 1, low: 0, high: 1 },
  xtcProbability: { fallback: 0, low: 0, high: 1 },
  xtcThreshold: { fallback: 0.1, low: 0, high: 0.5 },
  repetitionPenalty: { fallback: 1, low: 0, high: Infinity, isOpen: true },
  presencePenalty: { fallback: 0, low: -2, high: 2 },
  frequencyPenalty: { fallback: 0, low: -2, high: 2 },
  topLogprobs: { fallback: 0, low: 0, high: 20, isInteger: true },
} as const satisfies Partial<Record<keyof SamplingOptions, Range>>;

type Numbers = { readonly [name in keyof typeof RANGES]: number };

/** All options, checked, with their defaults. */
export interface Sampling extends Numbers {
  readonly logitBias: ReadonlyMap<number, number>;
  /** 0 to 2⁶⁴ − 1; none for a new one. */
  readonly seed: bigint | undefined;
  readonly logprobs: boolean;
}

const OTHERS = ['logitBias', 'seed', 'logprobs'];

/** @throws UsageError for an option that there is not, or that is out of its range */
export function checkedSampling(options: SamplingOptions): Sampling {
  const names = [...Object.keys(RANGES), ...OTHERS];
  const unknown = Object.keys(options).find((name) => !names.includes(name));
  if (unknown !== undefined) {
    const near = nearestName(unknown, names);
    throw new UsageError(
      `There is no sampling option ${unknown}${near ? `; did you mean ${near}?` : '.'}`,
    );
  }
  const numbers = Object.fromEntries(
    Object.entries(RANGES).map(([name, range]) => {
      const value = options[name as keyof Numbers] ?? undefined;
      return [name, value === undefined ? range.fallback : checkedNumber(name, value, range)];
    }),
  ) as unknown as Numbers;
  const logprobs = options.logprobs ?? false;
  if (typeof logprobs !== 'boolean') throw new UsageError('logprobs must be true or false.');
  if (numbers.topLogprobs > 0 && !logprobs)
    throw new UsageError('topLogprobs takes logprobs: true.');
  return {
    ...numbers,
    logprobs,
    logitBias: checkedBias(options.logitBias ?? {}),
    seed: checkedSeed(options.seed ?? undefined),
  };
}

function checkedNumber(name: string, value: number, range: Range): number {
  const { low, high, isInteger = false, isOpen = false } = range;
  const fits = typeof value === 'number' && value >= low && value <= high && value !== Infinity;
  if (fits && !(isOpen && value === low) && (!isInteger || Number.isInteger(value))) return value;
  const what = isInteger ? 'an integer' : 'a number';
  const bounds = isOpen
    ? `above ${low}`
    : high === Infinity
      ? `of ${low} or more`
      : `from ${low} to ${high}`;
  throw new UsageError(`${name} must be ${what} ${bounds}, not ${String(value)}.`);
}

function checkedSeed(seed: number | bigint | undefined): bigint | undefined {
  if (seed === undefined) return undefined;
  if (typeof seed !== 'bigint' && !Number.isInteger(seed)) {
    throw new UsageError(`seed must be an integer, not ${String(seed)}.`);
  }
  return BigInt.asUintN(64, BigInt(seed));
}

function checkedBias(bias: NonNullable<SamplingOptions['logitBias']>): ReadonlyMap<number, number> {
  const entries = bias instanceof Map ? [...bias] : Object.entries(bias as Record<string, number>);
  const checked = new Map<number, number>();
  for (const [key, value] of entries as [number | string, unknown][]) {
    const id = Number(key);
    if (!Number.isInteger(id) || (typeof key === 'string' && key.trim() === '')) {
      throw new UsageError(`logitBias must be by token ids, not by ${JSON.stringify(key)}.`);
    }
    const fits =
      typeof value === 'number' && value <= 100 && (value >= -100 || value === -Infinity);
    if (!fits) {
      throw new UsageError(
        `logitBias of token ${id} must be from -100 to 100, or -Infinity, not ${String(value)}.`,
      );
    }
    checked.set(id, value);
  }
  return checked;
}
