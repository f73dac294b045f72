import { NativeError, ShapeError, UsageError } from '@mlx-runners/mlx-core/errors';
import { Sampler, type SamplingOptions } from '@mlx-runners/lm';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { distribution, surprise } from './reference-sampling.js';

const VOCABULARY = 40;
/** A hilly row, with ties and some tokens out of the question. */
const logits = Float32Array.from({ length: VOCABULARY }, (_, id) =>
  id % 13 === 12 ? -Infinity : Math.fround(2.5 * Math.sin(1.7 * id) + (id % 5) / 2),
);
const row = Array.from(logits);

function draws(options: SamplingOptions, count: number, from = logits): number[] {
  const sampler = new Sampler(options);
  return Array.from({ length: count }, () => sampler.sample(from).id);
}

function counted(ids: readonly number[]): number[] {
  const counts = Array<number>(VOCABULARY).fill(0);
  for (const id of ids) counts[id]++;
  return counts;
}

describe('the distribution of what is drawn', () => {
  const cases: SamplingOptions[] = [
    {},
    { temperature: 0.5 },
    { temperature: 3 },
    { topK: 1 },
    { topK: 7 },
    { topP: 0.5 },
    { topP: 0.9 },
    { topP: 0 },
    { minP: 0.05 },
    { minP: 1 },
    { typicalP: 0.5 },
    { typicalP: 0.9 },
    { topK: 20, topP: 0.8, minP: 0.02, temperature: 1.3 },
    { topK: 12, typicalP: 0.8, topP: 0.95 },
    { xtcProbability: 1, xtcThreshold: 0.05 },
    { xtcProbability: 0.5, xtcThreshold: 0.05, topP: 0.9 },
    { xtcProbability: 1, xtcThreshold: 0.5 },
    { logitBias: { 0: 3, 5: -100, 9: -Infinity } },
  ];

  it.each(cases)('is the expected one with %j', (options) => {
    const ids = draws({ ...options, seed: 11 }, 20_000);
    expect(surprise(counted(ids), distribution(row, options))).toBeLessThan(5);
  });

  it('would show a small error', () => {
    const ids = draws({ seed: 11, temperature: 1.1 }, 20_000);
    expect(surprise(counted(ids), distribution(row, {}))).toBeGreaterThan(5);
  });

  it('is the expected one at any settings', () => {
    const probability = fc.double({ min: 0, max: 1, noNaN: true });
    const options = fc.record(
      {
        temperature: fc.double({ min: 0.2, max: 3, noNaN: true }),
        topK: fc.integer({ min: 0, max: VOCABULARY + 3 }),
        topP: probability,
        minP: fc.double({ min: 1e-6, max: 1, noNaN: true }),
        typicalP: fc.double({ min: 0, max: 0.999, noNaN: true }),
      },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(options, fc.integer(), (options, seed) => {
        const ids = draws({ ...options, seed }, 1500);
        expect(surprise(counted(ids), distribution(row, options))).toBeLessThan(6);
      }),
      { seed: 5, numRuns: 40 },
    );
  });

  it('is that of many tokens, too, which are not sorted all', () => {
    const size = 5000;
    const flat = Float32Array.from({ length: size }, (_, id) => Math.sin(id) / 4);
    const expected = distribution(Array.from(flat), { topP: 0.9 });
    const ids = draws({ topP: 0.9, seed: 3 }, 300, flat);
    expect(ids.every((id) => expected[id] > 0)).toBe(true);
    const allowed = expected.filter((p) => p > 0).length;
    expect(allowed).toBeGreaterThan(3000);
    expect(new Set(ids).size).toBeGreaterThan(200);
  });
});

describe('penalties', () => {
  it.each<SamplingOptions>([
    { repetitionPenalty: 1.5 },
    { presencePenalty: 1.5 },
    { presencePenalty: -2 },
    { frequencyPenalty: 0.7 },
    { repetitionPenalty: 1.2, presencePenalty: 0.5, frequencyPenalty: 0.5, temperature: 0.8 },
  ])('change the logits of what the completion has: %j', (options) => {
    const completion = [0, 1, 1, 1, 5, 7, 7];
    const ids = Array.from({ length: 4000 }, (_, seed) => {
      const sampler = new Sampler({ ...options, seed });
      for (const id of completion) sampler.add(id);
      return sampler.sample(logits).id;
    });
    expect(surprise(counted(ids), distribution(row, options, completion))).toBeLessThan(5);
  });

  it('see the tokens that were drawn', () => {
    const even = new Float32Array(8).fill(1);
    const ids = draws({ presencePenalty: 2, temperature: 0 }, 8, even);
    expect(ids).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
  });

  it('count a repeated token once for repetition, and as often as it comes for frequency', () => {
    const two = Float32Array.of(4, 1.5);
    const after = (options: SamplingOptions, times: number) => {
      const sampler = new Sampler({ ...options, temperature: 0 });
      for (let i = 0; i < times; i++) sampler.add(0);
      return sampler.sample(two).id;
    };
    expect([1, 5].map((times) => after({ repetitionPenalty: 2 }, times))).toEqual([0, 0]);
    expect([1, 5].map((times) => after({ frequencyPenalty: 1 }, times))).toEqual([0, 1]);
  });

  it('ignore tokens beyond the row', () => {
    const sampler = new Sampler({ temperature: 0, presencePenalty: 2 });
    sampler.add(1000);
    expect(sampler.sample(Float32Array.of(1, 2)).id).toBe(1);
  });
});

describe('the seed', () => {
  it('decides the tokens', () => {
    expect(draws({ seed: 42 }, 50)).toEqual(draws({ seed: 42 }, 50));
    expect(draws({ seed: 42 }, 50)).not.toEqual(draws({ seed: 43 }, 50));
  });

  it('is new for each request without one, before and after one with', () => {
    const before = draws({}, 50);
    draws({ seed: 1 }, 50);
    expect(draws({}, 50)).not.toEqual(before);
    expect(draws({ seed: null }, 50)).not.toEqual(before);
  });

  it('is taken modulo 2^64', () => {
    expect(draws({ seed: -1 }, 20)).toEqual(draws({ seed: 2n ** 64n - 1n }, 20));
    expect(draws({ seed: 2 ** 70 }, 20)).toEqual(draws({ seed: 0 }, 20));
    expect(draws({ seed: 2n ** 32n }, 20)).not.toEqual(draws({ seed: 0 }, 20));
  });

  it('does what it does whatever else is sampled meanwhile', () => {
    const one = new Sampler({ seed: 7, topP: 0.9 });
    const other = new Sampler({ seed: 8, logprobs: true, frequencyPenalty: 1 });
    const longer = new Float32Array(400).fill(1);
    const ids = Array.from({ length: 50 }, () => {
      other.sample(longer);
      return one.sample(logits).id;
    });
    expect(ids).toEqual(draws({ seed: 7, topP: 0.9 }, 50));
  });

  it('makes no difference at temperature 0', () => {
    expect(new Set([1, 2, 3].flatMap((seed) => draws({ temperature: 0, seed }, 3))).size).toBe(1);
  });
});

describe('logits', () => {
  it('stay as they are', () => {
    const given = logits.slice();
    draws({ logitBias: { 3: 5 }, repetitionPenalty: 2, topK: 3, logprobs: true }, 20, given);
    expect(given).toEqual(logits);
  });

  it('that are NaN count as -Infinity', () => {
    const broken = Float32Array.of(NaN, 1, NaN, -Infinity);
    expect(draws({ temperature: 0 }, 1, broken)).toEqual([1]);
    expect(new Set(draws({ seed: 1 }, 100, broken))).toEqual(new Set([1]));
    expect(new Sampler({ logprobs: true }).sample(broken).logprob).toBe(0);
  });

  it('that are Infinity leave no other token', () => {
    const broken = Float32Array.of(Infinity, 99, Infinity, NaN);
    expect(new Set(draws({ seed: 1 }, 100, broken))).toEqual(new Set([0, 2]));
    expect(draws({ temperature: 0 }, 1, broken)).toEqual([0]);
    const { logprob } = new Sampler({ logprobs: true }).sample(broken);
    expect(logprob).toBeCloseTo(Math.log(0.5));
  });

  it('of tokens out of the question are never drawn', () => {
    const ids = draws({ seed: 2, temperature: 50 }, 5000);
    expect(ids.some((id) => id % 13 === 12)).toBe(false);
  });

  it('without a usable one are refused', () => {
    for (const broken of [Float32Array.of(-Infinity, NaN), new Float32Array(3).fill(NaN)]) {
      for (const temperature of [0, 1]) {
        const sampler = new Sampler({ temperature });
        expect(() => sampler.sample(broken)).toThrow(NativeError);
        expect(() => sampler.sample(broken)).toThrow(
          /no usable logits: all \d are -Infinity or NaN/,
        );
      }
    }
    expect(() => new Sampler().sample(new Float32Array(0))).toThrow(ShapeError);
  });

  it('of which biases leave none are refused', () => {
    const sampler = new Sampler({ logitBias: { 0: -Infinity, 1: -Infinity } });
    expect(() => sampler.sample(Float32Array.of(1, 2))).toThrow(UsageError);
  });

  it('of ids that the model lacks have no bias', () => {
    const biased = draws({ seed: 4, logitBias: { '-1': 100, 4000: 100 } }, 50);
    expect(biased).toEqual(draws({ seed: 4 }, 50));
  });
});

describe('logprobs', () => {
  it('are those of the model, whatever changes the draw', () => {
    const expected = distribution(row, {}).map(Math.log);
    const options = { temperature: 0.3, topK: 3, logitBias: { 1: 9 }, repetitionPenalty: 2 };
    const sampler = new Sampler({ ...options, seed: 1, logprobs: true, topLogprobs: 5 });
    for (let i = 0; i < 20; i++) {
      const { id, logprob, topLogprobs } = sampler.sample(logits);
      expect(logprob).toBeCloseTo(expected[id], 12);
      const top = [...expected.keys()]
        .sort((a, b) => expected[b] - expected[a] || a - b)
        .slice(0, 5);
      expect(topLogprobs!.map((entry) => entry.id)).toEqual(top);
      topLogprobs!.forEach((entry) => expect(entry.logprob).toBeCloseTo(expected[entry.id], 12));
    }
  });

  it('are told only where they are asked for', () => {
    expect(new Sampler().sample(logits)).toEqual({ id: expect.any(Number) as number });
    expect(new Sampler({ logprobs: true }).sample(logits).topLogprobs).toEqual([]);
  });
});

describe('options', () => {
  it('that are null or undefined have their defaults', () => {
    const { sampling } = new Sampler({ temperature: null, topP: undefined, logitBias: null });
    expect(sampling).toMatchObject({ temperature: 1, topP: 1, topK: 0, repetitionPenalty: 1 });
    expect(new Set(draws({ temperature: null, topP: null }, 200)).size).toBeGreaterThan(5);
  });

  it.each<[unknown, string]>([
    [{ temperature: -1 }, 'temperature must be a number of 0 or more, not -1.'],
    [{ temperature: Infinity }, 'temperature must be a number of 0 or more, not Infinity.'],
    [{ temperature: '1' }, 'temperature must be a number of 0 or more, not 1.'],
    [{ temperature: NaN }, 'temperature must be a number of 0 or more, not NaN.'],
    [{ topK: 1.5 }, 'topK must be an integer of 0 or more, not 1.5.'],
    [{ topP: 1.1 }, 'topP must be a number from 0 to 1, not 1.1.'],
    [{ minP: -0.1 }, 'minP must be a number from 0 to 1, not -0.1.'],
    [{ xtcThreshold: 0.6 }, 'xtcThreshold must be a number from 0 to 0.5, not 0.6.'],
    [{ repetitionPenalty: 0 }, 'repetitionPenalty must be a number above 0, not 0.'],
    [{ presencePenalty: 3 }, 'presencePenalty must be a number from -2 to 2, not 3.'],
    [{ seed: 1.5 }, 'seed must be an integer, not 1.5.'],
    [{ seed: 'x' }, 'seed must be an integer, not x.'],
    [{ topLogprobs: 21, logprobs: true }, 'topLogprobs must be an integer from 0 to 20, not 21.'],
    [{ topLogprobs: 2 }, 'topLogprobs takes logprobs: true.'],
    [{ logprobs: 1 }, 'logprobs must be true or false.'],
    [{ logitBias: { a: 1 } }, 'logitBias must be by token ids, not by "a".'],
    [
      { logitBias: { 1: 101 } },
      'logitBias of token 1 must be from -100 to 100, or -Infinity, not 101.',
    ],
    [{ topk: 3 }, 'There is no sampling option topk; did you mean topK?'],
    [{ length: 3 }, 'There is no sampling option length.'],
  ])('%j are refused', (options, message) => {
    expect(() => new Sampler(options as SamplingOptions)).toThrow(UsageError);
    expect(() => new Sampler(options as SamplingOptions)).toThrow(message);
  });

  it('may give biases as a map', () => {
    const biases = new Map([[3, 100]]);
    expect(new Set(draws({ logitBias: biases }, 50))).toEqual(new Set([3]));
  });
});
