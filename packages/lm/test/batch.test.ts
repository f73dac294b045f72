/** Batches of texts, over a toy model that knows what each of its tokens has to see. */
import {
  AbortedError,
  BusyError,
  DisposedError,
  NativeError,
  UsageError,
} from '@mlx-runners/mlx-core/errors';
import type { TextPart } from '@mlx-runners/lm';
import { describe, expect, it } from 'vitest';
import { alone, idsOf, toyBatch, toyPrompt } from './toy-model.js';

const greedy = { temperature: 0, ignoreStopIds: true };

describe('BatchEngine', () => {
  it('gives each text what it has alone', async () => {
    const { engine, steps } = toyBatch({ prefillChunk: 8, keptSequences: 0 });
    const prompts = [1, 26, 10, 40, 2].map((length, seed) => toyPrompt(seed, length));
    const options = { seed: 3, maxTokens: 20 };
    const streams = prompts.map((prompt) => engine.generate(prompt, options));
    const results = await Promise.all(streams.map((stream) => stream.result()));
    for (const [i, { text, tokens, usage, finish }] of results.entries()) {
      const expected = alone(prompts[i], options);
      expect(tokens.map(({ id }) => id)).toEqual(expected.ids);
      expect(text).toBe(expected.text);
      expect(usage).toMatchObject({
        promptTokens: prompts[i].length,
        cachedTokens: 0,
        completionTokens: expected.ids.length,
      });
      expect(finish.reason).toBe(expected.ids.length === 20 ? 'length' : 'stop');
    }
    const status = { running: 0, waiting: 0, kept: 0, cells: 1000, freeCells: 1000 };
    expect(engine.status).toEqual(status);
    expect(steps.cache.sequences.size).toBe(0);
  });

  it('computes texts together', async () => {
    const { engine, steps } = toyBatch();
    const options = { ...greedy, maxTokens: 10 };
    const streams = [1, 2, 3].map((seed) => engine.generate(toyPrompt(seed, 5), options));
    await Promise.all(streams.map((stream) => stream.result()));
    expect(steps.sizes).toEqual([15, ...Array.from({ length: 9 }, () => 3)]);
  });

  it('gives text as it comes', async () => {
    const { engine } = toyBatch();
    const stream = engine.generate(toyPrompt(1, 5), { ...greedy, maxTokens: 10 });
    const parts: TextPart[] = [];
    for await (const part of stream) parts.push(part);
    expect(parts.length).toBeGreaterThan(5);
    const { text, tokens } = await stream.result();
    expect(parts.map((part) => part.text).join('')).toBe(text);
    expect(parts.flatMap((part) => part.tokens)).toEqual(tokens);
  });

  it('loses nothing for a reader who is slow', async () => {
    const { engine } = toyBatch();
    const options = { ...greedy, maxTokens: 10 };
    const slow = engine.generate(toyPrompt(1, 5), options);
    const parts: TextPart[] = [];
    for await (const part of slow) {
      parts.push(part);
      await engine.generate(toyPrompt(2, 5), { ...options, maxTokens: 30 }).result();
    }
    expect(parts).toHaveLength(2);
    expect(await idsOf(slow)).toEqual(alone(toyPrompt(1, 5), options).ids);
  });

  it('takes texts while others are under way', async () => {
    const { engine } = toyBatch();
    const long = { ...greedy, maxTokens: 30 };
    const short = { ...greedy, maxTokens: 5 };
    const first = engine.generate(toyPrompt(1, 5), long);
    const second = engine.generate(toyPrompt(2, 50), short);
    let other: Promise<number[]> | undefined;
    for await (const part of first) {
      expect(part.tokens).toHaveLength(1);
      other ??= idsOf(second);
    }
    expect(await idsOf(first)).toEqual(alone(toyPrompt(1, 5), long).ids);
    expect(await other).toEqual(alone(toyPrompt(2, 50), short).ids);
  });

  it('reads a long prompt in pieces, between which others go on', async () => {
    const { engine, steps } = toyBatch({ prefillChunk: 16, maxSequences: 2 });
    const talking = engine.generate(toyPrompt(1, 3), { ...greedy, maxTokens: 12 });
    const done: [number, number][] = [];
    const reading = engine.generate(toyPrompt(2, 100), {
      ...greedy,
      maxTokens: 1,
      onPrefill: (...progress) => done.push(progress),
    });
    await Promise.all([talking.result(), reading.result()]);
    expect(steps.sizes.slice(0, 4)).toEqual([3 + 16, 1 + 32, 1 + 32, 1 + 20]);
    expect(done.at(0)).toEqual([16, 100]);
    expect(done.at(-1)).toEqual([100, 100]);
  });

  it('ends texts at stop strings of their own', async () => {
    const { engine } = toyBatch();
    const options = { ...greedy, maxTokens: 30 };
    const { text } = alone(toyPrompt(1, 5), options);
    const stop = text.slice(4, 7);
    const stopping = engine.generate(toyPrompt(1, 5), { ...options, stop });
    const going = engine.generate(toyPrompt(1, 5), options);
    const [stopped, whole] = await Promise.all([stopping.result(), going.result()]);
    expect(stopped).toMatchObject({
      text: text.slice(0, text.indexOf(stop)),
      finish: { reason: 'stop', stopString: stop },
    });
    expect(whole.text).toBe(text);
  });

  it('ends at the end of the context', async () => {
    const { engine } = toyBatch({}, 20);
    const { finish, tokens } = await engine.generate(toyPrompt(1, 15), greedy).result();
    expect(finish).toEqual({ reason: 'length' });
    expect(tokens.map(({ id }) => id)).toEqual(
      alone(toyPrompt(1, 15), { ...greedy, maxTokens: 6 }).ids,
    );
    const full = await engine.generate(toyPrompt(2, 20), greedy).result();
    expect(full.tokens).toHaveLength(1);
  });

  it('gives no tokens where none are wanted', async () => {
    const { engine, steps } = toyBatch();
    const { text, finish } = await engine.generate([8], { maxTokens: 0 }).result();
    expect({ text, finish }).toEqual({ text: '', finish: { reason: 'length' } });
    expect(steps.sizes).toEqual([]);
  });
});

describe('BatchEngine, when something is wrong', () => {
  it('refuses at once what never fits', () => {
    const { engine } = toyBatch({ cells: 30 }, 100);
    expect(() => engine.generate(toyPrompt(1, 31))).toThrow(
      'The prompt has 31 tokens, more than the 30 that there is room for.',
    );
    expect(() => engine.generate([])).toThrow(UsageError);
    expect(() => engine.generate([8], { topP: 2 })).toThrow(UsageError);
  });

  it.each([
    { maxSequences: 64 },
    { maxSequences: 0 },
    { prefillChunk: 285 },
    { maxRequests: 0.5 },
    { keptSequences: -1 },
    { cellls: 5 },
  ])('refuses %o', (options) => {
    expect(() => toyBatch(options)).toThrow(UsageError);
  });

  it('refuses more texts than may be under way, but not later', async () => {
    const { engine } = toyBatch({ maxSequences: 2, maxRequests: 3 });
    const options = { ...greedy, maxTokens: 4 };
    const streams = [1, 2, 3, 4].map((seed) => engine.generate(toyPrompt(seed, 4), options));
    const results = await Promise.allSettled(streams.map((stream) => stream.result()));
    expect(results.map(({ status }) => status)).toEqual([
      'fulfilled',
      'fulfilled',
      'fulfilled',
      'rejected',
    ]);
    await expect(streams[3].result()).rejects.toThrow(BusyError);
    await expect(engine.generate(toyPrompt(4, 4), options).result()).resolves.toBeDefined();
  });

  it('frees the cells of a text that is cancelled, while others go on', async () => {
    const { engine, steps } = toyBatch({ keptSequences: 0 });
    const cancelled = new AbortController();
    steps.during = () => {
      if (steps.sizes.length === 4) cancelled.abort();
    };
    const { signal } = cancelled;
    const options = { ...greedy, maxTokens: 12 };
    const stopped = engine.generate(toyPrompt(1, 9), { ...options, signal });
    const going = engine.generate(toyPrompt(2, 9), options);
    const [, ids] = await Promise.all([
      expect(stopped.result()).rejects.toThrow(AbortedError),
      idsOf(going),
    ]);
    expect(ids).toEqual(alone(toyPrompt(2, 9), options).ids);
    expect(engine.status).toMatchObject({ running: 0, freeCells: 1000 });
  });

  it('forgets a text whose signal fires while it waits', async () => {
    const { engine, steps } = toyBatch({ maxSequences: 1 });
    const cancelled = new AbortController();
    const first = engine.generate(toyPrompt(1, 9), { ...greedy, maxTokens: 5 });
    const second = engine.generate(toyPrompt(2, 9), { signal: cancelled.signal });
    steps.during = () => {
      expect(engine.status).toMatchObject({ running: 1, waiting: 1 });
      cancelled.abort();
      expect(engine.status).toMatchObject({ running: 1, waiting: 0 });
      steps.during = undefined;
    };
    const results = await Promise.allSettled([first.result(), second.result()]);
    expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected']);
    expect(steps.sizes).toEqual([9, 1, 1, 1, 1]);
    await expect(
      engine.generate(toyPrompt(3, 9), { signal: cancelled.signal }).result(),
    ).rejects.toThrow(AbortedError);
  });

  it('frees the cells of a text whose loop is left', async () => {
    const { engine } = toyBatch({ keptSequences: 0 });
    const stream = engine.generate(toyPrompt(1, 9), greedy);
    for await (const part of stream) {
      expect(part.tokens).toHaveLength(1);
      break;
    }
    await engine.generate(toyPrompt(2, 9), { ...greedy, maxTokens: 3 }).result();
    expect(engine.status).toMatchObject({ running: 0, freeCells: 1000 });
  });

  it('fails one text alone where its tokens can not be drawn', async () => {
    const { engine } = toyBatch({ keptSequences: 0 });
    const nothing = new Map(Array.from({ length: 300 }, (_, id) => [id, -Infinity]));
    const options = { ...greedy, maxTokens: 8 };
    const broken = engine.generate(toyPrompt(1, 9), { logitBias: nothing });
    const listening = engine.generate(toyPrompt(2, 9), {
      onPrefill: () => {
        throw new RangeError('A listener failed.');
      },
    });
    const fine = engine.generate(toyPrompt(3, 9), options);
    const [, , ids] = await Promise.all([
      expect(broken.result()).rejects.toThrow('logitBias leaves no token to draw.'),
      expect(listening.result()).rejects.toThrow(RangeError),
      idsOf(fine),
    ]);
    expect(ids).toEqual(alone(toyPrompt(3, 9), options).ids);
    expect(engine.status).toMatchObject({ running: 0, freeCells: 1000 });
  });

  it('fails the texts of a step that fails, and no others', async () => {
    const { engine, steps } = toyBatch({ maxSequences: 2, keptSequences: 0 });
    steps.during = () => {
      if (steps.sizes.length === 3) {
        steps.during = undefined;
        throw new NativeError('The device is gone.');
      }
    };
    const options = { ...greedy, maxTokens: 8 };
    const streams = [1, 2, 3].map((seed) => engine.generate(toyPrompt(seed, 6), options));
    const [, , ids] = await Promise.all([
      expect(streams[0].result()).rejects.toThrow(NativeError),
      expect(streams[1].result()).rejects.toThrow(NativeError),
      idsOf(streams[2]),
    ]);
    expect(ids).toEqual(alone(toyPrompt(3, 6), options).ids);
    expect(engine.status).toMatchObject({ running: 0, freeCells: 1000 });
    expect(await idsOf(engine.generate(toyPrompt(1, 6), options))).toEqual(
      alone(toyPrompt(1, 6), options).ids,
    );
  });

  it('fails texts when it is disposed, and takes no more', async () => {
    const { engine, steps } = toyBatch({ maxSequences: 1 });
    const streams = [1, 2].map((seed) => engine.generate(toyPrompt(seed, 6), greedy));
    const late = engine.generate(toyPrompt(3, 6));
    let disposal: Promise<void> | undefined;
    steps.during = () => {
      if (steps.sizes.length === 3) disposal = engine.dispose();
    };
    for (const stream of streams) {
      void stream.result().catch(() => undefined);
    }
    for (const stream of streams) await expect(stream.result()).rejects.toThrow(DisposedError);
    await disposal;
    await engine.dispose();
    expect(steps.isDisposed).toBe(true);
    await expect(late.result()).rejects.toThrow(DisposedError);
    expect(() => engine.generate([8])).toThrow(DisposedError);
  });
});
