/** Generation with a tiny decoder whose cache is a ring in its states. */
import { mx, NativeError, ShapeError, UsageError, type Dtype } from '@mlx-runners/mlx-core';
import {
  NativeSampler,
  type NativeSampling,
  type SampledToken,
} from '@mlx-runners/mlx-core/program';
import type { GenerateOptions, Method, Session } from '@mlx-runners/program';
import { describe, expect, onTestFinished, test } from 'vitest';
import { loaded, normal } from './models.js';

const [vocabulary, width, window, most] = [50, 8, 12, 5];
const slots = window + most - 1;
const parameters = Object.fromEntries(
  ['q', 'k', 'v', 'out'].map((name, i) => [name, normal(i, [width, width])]),
);
const embedding = normal(9, [vocabulary, width]);

interface Kind {
  logits?: 'last' | 'full' | 'rows';
  dtype?: Dtype;
  /** The most positions. */
  capacity?: number;
}

function decoder({ logits: kind = 'last', dtype = 'float32', capacity = 1e6 }: Kind = {}): Method {
  const cache = { dtype: 'float32', shape: [1, 1, slots, width] } as const;
  const rows = { dtype: 'int32', shape: [1] } as const;
  const ids = { dtype: 'int32', shape: [1, 'T'] } as const;
  return {
    dimensions: { T: { min: 1, max: most }, past: { min: 0, max: capacity - 1 } },
    limits: [{ size: ['+', 'past', 'T'], max: capacity }],
    inputs: kind === 'rows' ? { rows, ids } : { ids },
    states: { keys: cache, values: cache },
    run: (given, { past }, states) => {
      const x = embedding.take(given.ids, 0).expandDims(1);
      const turned = (name: string) =>
        mx.linear(x, parameters[name]).rope(width, false, 1e4, 1, past);
      states.keys = mx.kvCacheUpdate(states.keys, turned('k'), past);
      states.values = mx.kvCacheUpdate(states.values, mx.linear(x, parameters.v), past);
      const { keys, values } = states;
      const seen = mx.kvCacheAttention(turned('q'), keys, values, past, 0.4, window);
      const hidden = mx.linear(seen, parameters.out).add(x).squeeze(1);
      const T = given.ids.shape[1];
      const chosen =
        kind === 'full'
          ? hidden
          : kind === 'rows'
            ? hidden.take(given.rows, 1)
            : hidden.slice([0, T - 1, 0], [1, T, width]);
      return { other: hidden, logits: mx.linear(chosen, embedding).astype(dtype) };
    },
  };
}

const plain: NativeSampling = {
  ...{ temperature: 1, topK: 0, topP: 1, minP: 0, typicalP: 1, xtcProbability: 0 },
  ...{ xtcThreshold: 0.1, repetitionPenalty: 1, presencePenalty: 0, frequencyPenalty: 0.2 },
  ...{ topLogprobs: 0, logprobs: false, logitBias: new Map<number, number>(), seed: 5n },
};
const samplerOf = (options: Partial<NativeSampling> = {}): NativeSampler =>
  new NativeSampler({ ...plain, ...options });

async function sessionOf(kind: Kind = {}, method = decoder(kind)): Promise<Session> {
  const model = await loaded({ forward: method }, { ...parameters, embedding });
  onTestFinished(() => model.dispose());
  const session = model.session();
  onTestFinished(() => session.dispose());
  return session;
}

const prompt = Int32Array.of(3, 1, 4, 1, 5);
const idsOf = (tokens: readonly SampledToken[]): number[] => tokens.map(({ id }) => id);

/** Token by token, sampled here. */
async function oneByOne(session: Session, count: number, kind: Kind): Promise<SampledToken[]> {
  const sampler = samplerOf({ logprobs: true, topLogprobs: 3 });
  const tokens: SampledToken[] = [];
  let [ids, past] = [prompt, 0];
  while (tokens.length < count) {
    const given = mx.array([Array.from(ids)], undefined, 'int32');
    const rows = mx.array([ids.length - 1], undefined, 'int32');
    const inputs = { ids: given, past, ...(kind.logits === 'rows' && { rows }) };
    const { outputs } = await session.run('forward', inputs);
    const all = (await outputs.logits.data()) as Float32Array;
    tokens.push(sampler.sample(all.slice(-vocabulary)));
    past += ids.length;
    ids = Int32Array.of(tokens[tokens.length - 1].id);
  }
  return tokens;
}

/** In bursts of so many tokens. */
async function inBursts(session: Session, count: number, burst: number): Promise<SampledToken[]> {
  const sampler = samplerOf({ logprobs: true, topLogprobs: 3 });
  const tokens: SampledToken[] = [];
  let [ids, past] = [prompt, 0];
  while (tokens.length < count) {
    const maxTokens = Math.min(burst, count - tokens.length);
    const done = await session.generate('forward', { ids, past, sampler, maxTokens });
    expect(done).toMatchObject({ ended: 'limit', past: past + ids.length + maxTokens - 1 });
    expect(done.seconds).toBeGreaterThanOrEqual(done.firstSeconds);
    tokens.push(...done.tokens);
    past = done.past;
    ids = Int32Array.of(tokens[tokens.length - 1].id);
  }
  return tokens;
}

describe('generate() gives the tokens of run() and a sampler', () => {
  test.each<Kind>([
    { logits: 'last' },
    { logits: 'full' },
    { logits: 'rows' },
    { logits: 'full', dtype: 'float16' },
    { dtype: 'bfloat16' },
  ])('for a method of %j, however many a burst has', async (kind) => {
    const session = await sessionOf(kind);
    const expected = await oneByOne(session, 40, kind);
    expect(new Set(idsOf(expected)).size).toBeGreaterThan(5);
    for (const burst of [1, 3, 40]) expect(await inBursts(session, 40, burst)).toEqual(expected);
  });
});

describe('a burst ends', () => {
  const start = async (options: Partial<GenerateOptions>, session?: Session) =>
    (session ?? (await sessionOf())).generate('forward', {
      ...{ ids: prompt, past: 0, sampler: samplerOf(), maxTokens: 30 },
      ...options,
    });

  test('at a stop id, which is its last token', async () => {
    const session = await sessionOf();
    const all = idsOf((await start({}, session)).tokens);
    const stop = all.findIndex((id, i) => i > 3 && !all.slice(0, i).includes(id));
    for (const stopIds of [[-1, all[stop]], new Set([all[stop]])]) {
      const { tokens, ended, past } = await start({ stopIds }, session);
      expect(idsOf(tokens)).toEqual(all.slice(0, stop + 1));
      expect({ ended, past }).toEqual({ ended: 'stop', past: prompt.length + stop });
    }
  });

  test('after maxSeconds, with one token at least', async () => {
    const { tokens, ended, past } = await start({ maxSeconds: 0 });
    expect({ count: tokens.length, ended, past }).toEqual({ count: 1, ended: 'limit', past: 5 });
  });

  test('when the signal fires, with what has been sampled', async () => {
    const session = await sessionOf();
    const expected = idsOf((await start({ maxTokens: 2000 }, session)).tokens);
    const sampler = samplerOf();
    for (let delay = 1; ; delay *= 2) {
      const signal = AbortSignal.timeout(delay);
      const done = await start({ maxTokens: 1e6, sampler: samplerOf(), signal }, session);
      expect(done.ended).toBe('aborted');
      const count = Math.min(done.tokens.length, expected.length);
      expect(idsOf(done.tokens).slice(0, count)).toEqual(expected.slice(0, count));
      if (done.tokens.length === 0) continue;
      expect(done.past).toBe(prompt.length + done.tokens.length - 1);
      break;
    }
    // Nothing is lost, and the tokens go on as they would have.
    const first = await start(
      { maxTokens: 1e6, sampler, signal: AbortSignal.timeout(20) },
      session,
    );
    const begun = idsOf(first.tokens);
    const ids = begun.length > 0 ? Int32Array.of(begun[begun.length - 1]) : prompt;
    const rest = await start({ ids, past: first.past, sampler, maxTokens: 50 }, session);
    const all = [...begun, ...idsOf(rest.tokens)].slice(0, expected.length);
    expect(all).toEqual(expected.slice(0, all.length));
  });

  test('at once when the signal has fired before', async () => {
    const result = await start({ past: 7, signal: AbortSignal.abort() });
    expect(result).toMatchObject({ tokens: [], ended: 'aborted', past: 7 });
  });

  test('where a later step fails, which the next burst then throws', async () => {
    const session = await sessionOf({ capacity: 16 });
    const { tokens, ended, past } = await start({}, session);
    expect({ count: tokens.length, ended, past }).toEqual({
      ...{ count: 12, ended: 'interrupted', past: 16 },
    });
    const next = start({ ids: Int32Array.of(tokens[11].id), past }, session);
    await expect(next).rejects.toThrow(ShapeError);
  });
});

describe('generate() refuses', () => {
  const given = (): GenerateOptions => ({
    ids: prompt,
    past: 0,
    sampler: samplerOf(),
    maxTokens: 4,
  });

  test.each<[object, RegExp]>([
    [{ ids: new Int32Array() }, /ids must be an Int32Array of at least one id/],
    [{ ids: [1] }, /ids must be an Int32Array/],
    [{ past: -1 }, /past must be 0 or more/],
    [{ maxTokens: 0 }, /maxTokens must be a number of 1 or more/],
    [{ maxSeconds: NaN }, /maxSeconds must be a number of 0 or more/],
    [{ sampler: {} }, /sampler must be a Sampler/],
    [{ stopIds: [1.5] }, /stopIds must be token ids/],
    [{ stopId: 1 }, /no option stopId; did you mean stopIds|no option stopId/],
  ])('the options %j', async (options, message) => {
    const session = await sessionOf();
    const wrong = session.generate('forward', { ...given(), ...options });
    await expect(wrong).rejects.toThrow(UsageError);
    await expect(session.generate('forward', { ...given(), ...options })).rejects.toThrow(message);
  });

  test('a method that is no decoder', async () => {
    const method: Method = {
      inputs: { ids: { dtype: 'int32', shape: [1, 1] } },
      run: ({ ids }) => ({ logits: ids.astype('float32') }),
    };
    const session = await sessionOf({}, method);
    await expect(session.generate('forward', given())).rejects.toThrow(/forward can't generate/);
    await expect(session.generate('other', given())).rejects.toThrow(UsageError);
  });

  test('what the method does not take', async () => {
    const session = await sessionOf();
    const long = { ...given(), ids: new Int32Array(6) };
    await expect(session.generate('forward', long)).rejects.toThrow(ShapeError);
    const far = { ...given(), past: 1e6 };
    await expect(session.generate('forward', far)).rejects.toThrow(/forward: .*past/);
  });

  test('logits that are no numbers', async () => {
    const method = decoder();
    const broken: Method = {
      ...method,
      run: (...all) => ({ logits: method.run(...all).logits.multiply(NaN) }),
    };
    const session = await sessionOf({}, broken);
    await expect(session.generate('forward', given())).rejects.toThrow(NativeError);
    await expect(session.generate('forward', given())).rejects.toThrow(/no usable logits/);
  });

  test('a sampler that is in use', async () => {
    const session = await sessionOf();
    const options = given();
    const first = session.generate('forward', options);
    await expect(session.generate('forward', options)).rejects.toThrow(UsageError);
    expect(() => options.sampler.sample(new Float32Array(4))).toThrow(/is using this sampler/);
    expect((await first).tokens).toHaveLength(4);
    expect(options.sampler.sample(Float32Array.of(0, -Infinity)).id).toBe(0);
  });
});

test('nothing of a token stays alive', async () => {
  const session = await sessionOf();
  const run = (maxTokens: number) =>
    session.generate('forward', { ids: prompt, past: 0, sampler: samplerOf(), maxTokens });
  await run(50);
  const before = mx.memory();
  await run(3000);
  const after = mx.memory();
  expect(after.arrays).toBe(before.arrays);
  expect(after.active).toBe(before.active);
});
