/** How the texts of a batch share a cache's cells, over a toy model. */
import { AbortedError } from '@mlx-runners/mlx-core/errors';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { StepClock } from './step-clock.js';
import { alone, idsOf, toyBatch, toyPrompt } from './toy-model.js';

const greedy = { temperature: 0, ignoreStopIds: true };
const system = toyPrompt(99, 40);
const asking = (seed: number, length = 4): number[] => [...system, ...toyPrompt(seed, length)];

describe('a batch whose texts begin alike', () => {
  it('reads once what is common, of texts that come together', async () => {
    const { engine, steps } = toyBatch({ keptSequences: 0 });
    const options = { ...greedy, maxTokens: 6 };
    const prompts = [1, 2, 3].map((seed) => asking(seed));
    const streams = prompts.map((prompt) => engine.generate(prompt, options));
    const results = await Promise.all(streams.map((stream) => stream.result()));
    expect(results.map(({ usage }) => usage.cachedTokens)).toEqual([0, 40, 40]);
    expect(steps.sizes.slice(0, 2)).toEqual([44, 1 + 4 + 4]);
    for (const [i, { tokens }] of results.entries()) {
      expect(tokens.map(({ id }) => id)).toEqual(alone(prompts[i], options).ids);
    }
    expect(engine.status).toMatchObject({ running: 0, freeCells: 1000 });
  });

  it('reads once what a text before had', async () => {
    const { engine, steps } = toyBatch();
    const options = { ...greedy, maxTokens: 6 };
    const first = await engine.generate(asking(1), options).result();
    expect(engine.status).toMatchObject({ kept: 1, freeCells: 1000 - 44 - 5 });
    const turn = [...asking(1), ...first.tokens.map(({ id }) => id), ...toyPrompt(7, 5)];
    const second = await engine.generate(turn, options).result();
    expect(second.usage.cachedTokens).toBe(44 + 5);
    expect(second.tokens.map(({ id }) => id)).toEqual(alone(turn, options).ids);
    expect(steps.sizes[6]).toBe(6);
    // The second one has all that the first one had.
    expect(engine.status.kept).toBe(1);
  });

  it('reads the last token of a prompt that it had already', async () => {
    const { engine } = toyBatch();
    const options = { ...greedy, maxTokens: 3 };
    await engine.generate(asking(1), options).result();
    const again = await engine.generate(asking(1), options).result();
    expect(again.usage.cachedTokens).toBe(43);
    expect(again.tokens.map(({ id }) => id)).toEqual(alone(asking(1), options).ids);
  });

  it('reads what is common itself where the text that was to read it is cancelled', async () => {
    const { engine, steps } = toyBatch({ prefillChunk: 8, keptSequences: 0 });
    const cancelled = new AbortController();
    const { signal } = cancelled;
    const options = { ...greedy, maxTokens: 6 };
    steps.during = () => {
      expect(engine.status).toMatchObject({ running: 1, waiting: 1 });
      cancelled.abort();
      steps.during = undefined;
    };
    const first = engine.generate(asking(1), { ...options, signal });
    const second = engine.generate(asking(2), options);
    const [, ids] = await Promise.all([
      expect(first.result()).rejects.toThrow(AbortedError),
      idsOf(second),
    ]);
    expect(ids).toEqual(alone(asking(2), options).ids);
    expect(engine.status.freeCells).toBe(1000);
  });

  it('keeps the texts that were of use last', async () => {
    const { engine } = toyBatch({ keptSequences: 2 });
    const options = { ...greedy, maxTokens: 1 };
    const cached = async (seed: number): Promise<number> => {
      const { usage } = await engine.generate(toyPrompt(seed, 30), options).result();
      return usage.cachedTokens;
    };
    expect([await cached(1), await cached(2)]).toEqual([0, 0]);
    expect([await cached(1), await cached(3)]).toEqual([29, 0]);
    expect(engine.status.kept).toBe(2);
    expect([await cached(1), await cached(2)]).toEqual([29, 0]);
  });
});

describe('a batch that is short of cells', () => {
  it('lets texts wait until there is room', async () => {
    const { engine, steps } = toyBatch({ cells: 60, keptSequences: 0 });
    const options = { ...greedy, maxTokens: 8 };
    const running: number[] = [];
    steps.during = () => running.push(engine.status.running);
    const prompts = [1, 2, 3, 4].map((seed) => toyPrompt(seed, 20));
    const all = await Promise.all(prompts.map((prompt) => idsOf(engine.generate(prompt, options))));
    expect(all).toEqual(prompts.map((prompt) => alone(prompt, options).ids));
    expect(Math.max(...running)).toBe(2);
    expect(engine.status.freeCells).toBe(60);
  });

  it('drops kept texts', async () => {
    const { engine } = toyBatch({ cells: 60 });
    const options = { ...greedy, maxTokens: 8 };
    for (const seed of [1, 2, 3, 4]) {
      const ids = await idsOf(engine.generate(toyPrompt(seed, 30), options));
      expect(ids).toEqual(alone(toyPrompt(seed, 30), options).ids);
      expect(engine.status.kept).toBe(1);
    }
    const whole = await engine.generate(toyPrompt(5, 60), greedy).result();
    expect(whole.tokens).toHaveLength(1);
  });

  it('drops a kept text that a prompt begins as, rather than never to fit it', async () => {
    const { engine } = toyBatch({ cells: 60 });
    await engine.generate(asking(1), { ...greedy, maxTokens: 15 }).result();
    const prompt = asking(2, 20);
    const options = { ...greedy, maxTokens: 1 };
    expect(await idsOf(engine.generate(prompt, options))).toEqual(alone(prompt, options).ids);
  });

  it('puts the latest text out where what all come to is too much, and reads it again', async () => {
    const { engine, steps } = toyBatch({ cells: 80, keptSequences: 0 });
    const options = { seed: 5, ignoreStopIds: true, maxTokens: 50 };
    const prompts = [1, 2, 3].map((seed) => toyPrompt(seed, 5));
    const all = await Promise.all(
      prompts.map((prompt) => engine.generate(prompt, options).result()),
    );
    for (const [i, { tokens, text }] of all.entries()) {
      const expected = alone(prompts[i], options);
      expect(tokens.map(({ id }) => id)).toEqual(expected.ids);
      expect(text).toBe(expected.text);
    }
    const computed = steps.sizes.reduce((sum, size) => sum + size);
    expect(computed).toBeGreaterThan(3 * (5 + 49));
    expect(engine.status).toMatchObject({ running: 0, freeCells: 80 });
  });

  it('ends a text that is as long as the cache', async () => {
    const { engine } = toyBatch({ cells: 25 });
    const { tokens, finish } = await engine.generate(toyPrompt(1, 10), greedy).result();
    expect(tokens).toHaveLength(16);
    expect(finish).toEqual({ reason: 'length' });
  });
});

describe('a batch of 63 sequences', () => {
  it('has 63 at once, and the next one in the line', async () => {
    const { engine, steps } = toyBatch({ maxSequences: 63, prefillChunk: 8 });
    const options = { ...greedy, maxTokens: 4 };
    let most = 0;
    steps.during = () => {
      most = Math.max(most, engine.status.running);
      expect(steps.cache.sequences.size).toBeLessThanOrEqual(63);
    };
    const seeds = Array.from({ length: 70 }, (_, seed) => seed);
    const all = await Promise.all(
      seeds.map((seed) => idsOf(engine.generate(toyPrompt(seed, 3), options))),
    );
    expect(most).toBe(63);
    expect(all).toEqual(seeds.map((seed) => alone(toyPrompt(seed, 3), options).ids));
  });

  it('gives up kept texts for them', async () => {
    const { engine, steps } = toyBatch({ maxSequences: 63, cells: 5000 });
    const options = { ...greedy, maxTokens: 2 };
    const texts = (from: number, count: number): Promise<unknown> =>
      Promise.all(
        Array.from({ length: count }, (_, i) =>
          engine.generate(toyPrompt(from + i, 17), options).result(),
        ),
      );
    await texts(0, 8);
    expect(engine.status.kept).toBe(8);
    await texts(8, 63);
    expect(steps.cache.sequences.size).toBe(8);
  });

  it('gives all the same as alone and leaves no cell, whatever comes and is cancelled', async () => {
    const request = fc.record({
      seed: fc.nat(200),
      length: fc.integer({ min: 1, max: 30 }),
      shares: fc.boolean(),
      maxTokens: fc.integer({ min: 1, max: 25 }),
      arrives: fc.nat(40),
      cancelled: fc.option(fc.nat(40)),
    });
    const batches = fc.record({
      requests: fc.array(request, { minLength: 1, maxLength: 80 }),
      cells: fc.constantFrom(75, 150, 1000),
      maxSequences: fc.constantFrom(3, 63),
      keptSequences: fc.constantFrom(0, 5),
      prefillChunk: fc.constantFrom(1, 7, 64),
    });
    await fc.assert(
      fc.asyncProperty(batches, async ({ requests, ...sizes }) => {
        const { engine, steps } = toyBatch(sizes);
        const clock = new StepClock();
        steps.during = clock.tick;
        const runs = requests.map(async ({ seed, length, shares, maxTokens, ...when }) => {
          const prompt = shares ? asking(seed, length) : toyPrompt(seed, length);
          const controller = new AbortController();
          if (when.cancelled !== null) {
            void clock.at(when.arrives + when.cancelled).then(() => controller.abort());
          }
          await clock.at(when.arrives);
          const options = { seed, maxTokens };
          const stream = engine.generate(prompt, { ...options, signal: controller.signal });
          try {
            const room = sizes.cells - prompt.length + 1;
            const expected = alone(prompt, { seed, maxTokens: Math.min(maxTokens, room) });
            expect(await idsOf(stream)).toEqual(expected.ids);
          } catch (error) {
            if (!(error instanceof AbortedError && when.cancelled !== null)) throw error;
          }
        });
        await Promise.all([...runs, clock.runUntil(80, engine)]);
        expect(engine.status).toMatchObject({ running: 0, waiting: 0 });
        expect(engine.status.kept).toBe(steps.cache.sequences.size);
        if (sizes.keptSequences === 0) expect(engine.status.freeCells).toBe(sizes.cells);
      }),
      { seed: 63, numRuns: 60 },
    );
  });
});
