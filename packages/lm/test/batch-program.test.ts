/** Batches over the programs of tiny checkpoints: what a text gets is what it gets alone. */
import { AbortedError, mx, UsageError, type MxArray } from '@mlx-runners/mlx-core';
import {
  BatchEngine,
  DecoderModel,
  decoderProgram,
  MAX_SEQUENCES,
  Sampler,
  type BatchOptions,
  type SamplingOptions,
  type StepModel,
} from '@mlx-runners/lm';
import { compileModel } from '@mlx-runners/program';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { goldenDecoder } from './golden-decoder.js';
import { StepClock } from './step-clock.js';
import { idsOf, toyModel } from './toy-model.js';

const greedy = { temperature: 0 };

/** A prompt that no other one begins as. */
const promptOf = (seed: number, length: number): number[] =>
  Array.from({ length }, (_, i) => (seed * 13 + i * i * 7 + i) % 64);

/** A generator of the same numbers in every run. */
function numbers(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

describe.each(['tiny_llama3', 'tiny_qwen2', 'tiny_qwen3', 'tiny_gemma3'])('%s', (name) => {
  const { decoder, golden } = goldenDecoder(name);
  let model: DecoderModel;
  beforeAll(async () => {
    const program = decoderProgram(decoder);
    model = new DecoderModel(
      await compileModel({ model: { id: name }, dtype: 'float32', ...program }),
      name,
    );
  });
  afterAll(() => {
    model.dispose();
    decoder.dispose();
  });

  function batch({ cells = 2000, ...options }: BatchOptions & { cells?: number } = {}) {
    const steps = model.steps({ cells });
    return { steps, engine: new BatchEngine(toyModel, steps, options) };
  }

  async function alone(
    prompt: readonly number[],
    maxTokens: number,
    sampling: SamplingOptions = greedy,
  ): Promise<number[]> {
    using sequence = model.sequence();
    const options = { sampler: new Sampler(sampling), stopIds: new Set<number>(), maxTokens };
    const tokens: number[] = [];
    let next = [...prompt];
    while (tokens.length < maxTokens) {
      const drawn = await sequence.continue(next, {
        ...options,
        maxTokens: maxTokens - tokens.length,
      });
      tokens.push(...drawn.map(({ id }) => id));
      next = tokens.slice(-1);
    }
    return tokens;
  }

  /** The largest error of a step's logits relative to the range of the expected ones. */
  async function error(rows: readonly Float32Array[], expected: MxArray): Promise<number> {
    const actual = mx.stack(rows.map((row) => mx.array(row)));
    const range = expected.max().subtract(expected.min());
    return actual.subtract(expected).abs().max().divide(range).item();
  }

  function stepOf(steps: StepModel, ids: number[][], sequences: number[], start: number) {
    const tokens = Int32Array.from(ids.flat());
    return steps.step(
      {
        tokens,
        positions: Int32Array.from(ids.flatMap((each) => each.map((_, i) => start + i))),
        sequences: Int32Array.from(ids.flatMap((each, i) => each.map(() => sequences[i]))),
        rows: Int32Array.from(tokens.keys()),
      },
      new AbortController().signal,
    );
  }

  it('gives the logits of a batch, at once and in pieces', async () => {
    const [count, length] = golden('ids_batch').shape;
    const data = Array.from(await golden('ids_batch').data(), Number);
    const ids = Array.from({ length: count }, (_, i) => data.slice(i * length, (i + 1) * length));
    const logits = golden('logits_batch');
    for (const piece of [length, 5, 1]) {
      const { steps } = batch();
      const sequences = ids.map(() => steps.cache.open());
      for (let start = 0; start < length; start += piece) {
        const end = Math.min(start + piece, length);
        const part = ids.map((each) => each.slice(start, end));
        const expected = logits.slice([0, start, 0], [count, end, 64]).reshape([-1, 64]);
        const actual = await stepOf(steps, part, sequences, start);
        expect(await error(actual, expected)).toBeLessThan(1e-4);
      }
      steps.dispose();
    }
  });

  it('continues greedily as the reference does', async () => {
    await using engine = batch().engine;
    const ids = Array.from(await golden('ids').data(), Number);
    const options = { ...greedy, ignoreStopIds: true, maxTokens: 16 };
    expect(await idsOf(engine.generate(ids, options))).toEqual(
      Array.from(await golden('greedy16').data(), Number),
    );
  });

  it('gives parallel prompts of different lengths the tokens that they have alone', async () => {
    await using engine = batch({ prefillChunk: 32 }).engine;
    const lengths = [1, 10, 26, 150];
    const all = await Promise.all(
      lengths.map((length) => {
        const options = { ...greedy, ignoreStopIds: true, maxTokens: 20 };
        return idsOf(engine.generate(promptOf(length, length), options));
      }),
    );
    for (const [i, length] of lengths.entries()) {
      expect(all[i]).toEqual(await alone(promptOf(length, length), 20));
    }
  });

  it('draws with a seed what it draws alone', async () => {
    await using engine = batch().engine;
    const seeds = [1, 2, 3, 2];
    const all = await Promise.all(
      seeds.map((seed) => {
        const options = { seed, temperature: 2, ignoreStopIds: true, maxTokens: 20 };
        return idsOf(engine.generate(promptOf(5, 12), options));
      }),
    );
    expect(all[3]).toEqual(all[1]);
    expect(all[0]).not.toEqual(all[1]);
    for (const [i, seed] of seeds.entries()) {
      expect(all[i]).toEqual(await alone(promptOf(5, 12), 20, { seed, temperature: 2 }));
    }
  });

  it('gives prompts that begin alike the tokens that they have alone', async () => {
    await using engine = batch().engine;
    const system = promptOf(9, 40);
    const options = { ...greedy, ignoreStopIds: true, maxTokens: 20 };
    for (const seeds of [[1, 2, 3], [4]]) {
      const prompts = seeds.map((seed) => [...system, ...promptOf(seed, 3 + seed)]);
      const results = await Promise.all(
        prompts.map((prompt) => engine.generate(prompt, options).result()),
      );
      const cached = results.map(({ usage }) => usage.cachedTokens);
      expect(cached.filter((count) => count >= 40)).toHaveLength(seeds.length === 3 ? 2 : 1);
      for (const [i, { tokens }] of results.entries()) {
        expect(tokens.map(({ id }) => id)).toEqual(await alone(prompts[i], 20));
      }
    }
  });

  it('has no steps of many sequences where its cache is in the graph', async () => {
    const program = decoderProgram(decoder, { cache: 'in-graph', maxContextLength: 64 });
    const description = { model: { id: name }, dtype: 'float32' as const, ...program };
    using inGraph = new DecoderModel(await compileModel(description), name);
    expect(() => inGraph.steps({ cells: 64 })).toThrow(UsageError);
  });

  it('refuses a 64th sequence', () => {
    const { steps } = batch();
    for (let i = 0; i < MAX_SEQUENCES; i++) steps.cache.open();
    expect(() => steps.cache.open()).toThrow(UsageError);
    steps.dispose();
  });

  it('gives 63 sequences that come and are cancelled what they have alone, and leaves no cell', async () => {
    const { steps } = batch();
    const clock = new StepClock();
    const counted: StepModel = {
      cache: steps.cache,
      contextLength: steps.contextLength,
      maxBatchSize: steps.maxBatchSize,
      step: async (input, signal) => {
        clock.tick();
        return await steps.step(input, signal);
      },
      dispose: () => steps.dispose(),
    };
    const options = { maxSequences: MAX_SEQUENCES, prefillChunk: 16, keptSequences: 0 };
    await using engine = new BatchEngine(toyModel, counted, options);
    const below = numbers(63);
    let most = 0;
    let cancelled = 0;
    const run = async (seed: number): Promise<void> => {
      const prompt = promptOf(seed, 1 + below(40));
      const [maxTokens, arrival, lifetime] = [20 + below(20), below(20), below(80)];
      const sampling = { seed, temperature: below(3) / 2 };
      const controller = new AbortController();
      const { signal } = controller;
      void clock.at(arrival + lifetime).then(() => controller.abort());
      await clock.at(arrival);
      const generateOptions = { ...sampling, ignoreStopIds: true, maxTokens, signal };
      const stream = engine.generate(prompt, generateOptions);
      const tokens = await idsOf(stream).catch((reason: unknown) => {
        if (reason instanceof AbortedError) return undefined;
        throw reason;
      });
      most = Math.max(most, engine.status.running);
      if (!tokens) cancelled++;
      else expect(tokens).toEqual(await alone(prompt, maxTokens, sampling));
    };
    const runs = Array.from({ length: 90 }, (_, seed) => run(seed));
    await Promise.all([...runs, clock.runUntil(110, engine)]);
    expect(cancelled).toBeGreaterThan(10);
    expect(cancelled).toBeLessThan(80);
    expect(most).toBeGreaterThan(50);
    expect(engine.status).toMatchObject({ running: 0, waiting: 0, freeCells: 2000 });
  });
});
