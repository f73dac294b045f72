import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { applyTimestampRules, argmax, expOfNegative, logSumExp, suppress } from '../src/logits.js';
import { chooseToken, RandomSource } from '../src/sampling.js';

const rules = { eot: 10, noTimestamps: 15, timestampBegin: 16, maxInitialTimestamp: 5 };
const vocabulary = 40;
const row = fc.float32Array({
  minLength: vocabulary,
  maxLength: vocabulary,
  min: -20,
  max: 20,
  noNaN: true,
});

describe('expOfNegative', () => {
  it('is e^x within 4.1e-9', () => {
    fc.assert(
      fc.property(fc.double({ min: -42, max: 0, noNaN: true }), (x) => {
        expect(Math.abs(expOfNegative(x) / Math.exp(x) - 1)).toBeLessThan(4.1e-9);
      }),
    );
    expect(expOfNegative(0)).toBeCloseTo(1, 8);
    expect([expOfNegative(-50), expOfNegative(-Infinity), expOfNegative(NaN)]).toEqual([0, 0, 0]);
  });
});

describe('logSumExp', () => {
  it('is the logarithm of the sum, whatever the size of the numbers', () => {
    expect(logSumExp(Float32Array.of(0, 0, 0, 0))).toBeCloseTo(Math.log(4), 8);
    expect(logSumExp(Float32Array.of(1000, 1000))).toBeCloseTo(1000 + Math.log(2), 7);
    expect(logSumExp(Float32Array.of(-Infinity, 3))).toBeCloseTo(3, 8);
  });

  it('is -Infinity where everything is masked', () => {
    expect(logSumExp(new Float32Array(5).fill(-Infinity))).toBe(-Infinity);
  });
});

describe('suppress', () => {
  it('masks the tokens and nothing else', () => {
    const logits = Float32Array.of(5, 4, 3);
    suppress(logits, [0, 2]);
    expect([...logits]).toEqual([-Infinity, 4, -Infinity]);
  });
});

describe('applyTimestampRules', () => {
  it('starts with a timestamp within the first second', () => {
    fc.assert(
      fc.property(row, (logits) => {
        applyTimestampRules(logits, [], rules);
        const token = argmax(logits);
        expect(token).toBeGreaterThanOrEqual(rules.timestampBegin);
        expect(token).toBeLessThanOrEqual(rules.timestampBegin + rules.maxInitialTimestamp);
      }),
    );
  });

  it('never leaves everything masked, and makes greedy sequences well formed', () => {
    fc.assert(
      fc.property(fc.array(row, { minLength: 1, maxLength: 12 }), (rows) => {
        const sampled: number[] = [];
        for (const logits of rows) {
          applyTimestampRules(logits, sampled, rules);
          expect(logSumExp(logits)).toBeGreaterThan(-Infinity);
          const token = argmax(logits);
          if (token === rules.eot) break;
          sampled.push(token);
        }
        const stamps = sampled.filter((token) => token >= rules.timestampBegin);
        expect(stamps).toEqual(stamps.toSorted((a, b) => a - b));
        expect(sampled).not.toContain(rules.noTimestamps);
        for (const [i, token] of sampled.entries()) {
          const three = sampled.slice(i, i + 3).every((next) => next >= rules.timestampBegin);
          if (token >= rules.timestampBegin && i + 2 < sampled.length) expect(three).toBe(false);
        }
      }),
    );
  });

  it('prefers timestamps when together they are likelier than any text', () => {
    const logits = new Float32Array(vocabulary).fill(-30);
    logits[3] = 1;
    logits.fill(0, 20);
    applyTimestampRules(logits, [16, 3], rules);
    expect(argmax(logits)).toBeGreaterThanOrEqual(20);
  });
});

describe('chooseToken', () => {
  it('takes the likeliest at temperature 0, with its log-probability', () => {
    const { token, logprob } = chooseToken(Float32Array.of(0, 2, 1), 0, new RandomSource(1));
    expect(token).toBe(1);
    expect(logprob).toBeCloseTo(2 - Math.log(Math.E ** 2 + Math.E + 1), 6);
  });

  it('draws with the probabilities of the tempered softmax, and the same for the same seed', () => {
    const logits = Float32Array.of(0, Math.log(3), -Infinity);
    const draw = (seed: number, temperature: number): number[] => {
      const random = new RandomSource(seed);
      return Array.from({ length: 4000 }, () => chooseToken(logits, temperature, random).token);
    };
    const share = (tokens: number[]): number => tokens.filter((t) => t === 1).length / 4000;
    expect(share(draw(7, 1))).toBeCloseTo(3 / 4, 1);
    expect(share(draw(7, 0.5))).toBeCloseTo(9 / 10, 1);
    expect(draw(7, 1)).not.toContain(2);
    expect(draw(7, 1)).toEqual(draw(7, 1));
    expect(draw(8, 1)).not.toEqual(draw(7, 1));
  });
});
