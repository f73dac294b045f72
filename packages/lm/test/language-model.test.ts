/** Language models as a whole: prompts in, text out. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { AbortedError, DisposedError, mx, UsageError } from '@mlx-runners/mlx-core';
import { LanguageModel, type GenerateOptions } from '@mlx-runners/lm';
import { fixturePath, tinyChatTemplate, writeTinyLanguageModel } from '@mlx-runners/test-fixtures';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const scratch = mkdtempSync(join(tmpdir(), 'lm-model-'));
afterAll(() => rmSync(scratch, { recursive: true }));

let model: LanguageModel;
beforeAll(async () => {
  const folder = writeTinyLanguageModel(join(scratch, 'llama'), { template: tinyChatTemplate });
  model = await LanguageModel.load(folder, { maxContextLength: 100 });
});
afterAll(() => model.dispose());

const greedy: GenerateOptions = { temperature: 0, ignoreStopIds: true };
const prompt = [3, 17, 42, 5, 9, 61, 2, 8];

async function ids(given: readonly number[], options: GenerateOptions): Promise<number[]> {
  const { tokens } = await model.generate(given, options).result();
  return tokens.map(({ id }) => id);
}

describe('generate', () => {
  it('continues a golden as the reference does', async () => {
    const { tensors } = mx.loadSafetensors(fixturePath('tiny_llama_tied.safetensors'));
    const given = Array.from(await tensors.get('ids')!.data(), Number);
    const expected = Array.from(await tensors.get('greedy16')!.data(), Number);
    expect(await ids(given, { ...greedy, maxTokens: 16 })).toEqual(expected);
  });

  it('gives parts whose texts and tokens are those of the result', async () => {
    const stream = model.generate(prompt, { ...greedy, maxTokens: 40 });
    let text = '';
    const tokens: number[] = [];
    for await (const part of stream) {
      text += part.text;
      tokens.push(...part.tokens.map(({ id }) => id));
    }
    const result = await stream.result();
    expect(result.text).toBe(text);
    expect(result.tokens.map(({ id }) => id)).toEqual(tokens);
    expect(tokens).toHaveLength(40);
    expect(result.text).toBe(model.tokenizer.decode(tokens));
    expect(result.finish).toEqual({ reason: 'length' });
    expect(result.usage).toMatchObject({ promptTokens: 8, completionTokens: 40 });
  });

  it('gives the same tokens whether the prompt is known or not', async () => {
    const cold = await ids(prompt, { ...greedy, maxTokens: 20 });
    const again = await model.generate(prompt, { ...greedy, maxTokens: 20 }).result();
    expect(again.usage.cachedTokens).toBe(prompt.length - 1);
    expect(again.tokens.map(({ id }) => id)).toEqual(cold);
    const longer = [...prompt, ...cold.slice(0, 5), 33];
    const warm = await model.generate(longer, { ...greedy, maxTokens: 20 }).result();
    expect(warm.usage.cachedTokens).toBe(prompt.length + 5);
    await model.generate([60, 59], { ...greedy, maxTokens: 1 }).result();
    expect(await ids(longer, { ...greedy, maxTokens: 20 })).toEqual(
      warm.tokens.map(({ id }) => id),
    );
  });

  it('draws the same with a seed and otherwise without', async () => {
    const drawn = (seed?: number) =>
      ids(prompt, { temperature: 2, seed, ignoreStopIds: true, maxTokens: 30 });
    const first = await drawn(42);
    expect(await drawn(42)).toEqual(first);
    expect(await drawn(43)).not.toEqual(first);
    expect(await drawn()).not.toEqual(await drawn());
  });

  it('ends at a stop token, which is not put out', async () => {
    const free = await ids(prompt, { ...greedy, maxTokens: 40 });
    const end = free.indexOf(1);
    const { tokens, finish } = await model
      .generate(prompt, { temperature: 0, maxTokens: 40 })
      .result();
    if (end < 0) expect(finish).toEqual({ reason: 'length' });
    else expect(finish).toEqual({ reason: 'stop', stopId: 1 });
    expect(tokens.map(({ id }) => id)).toEqual(free.slice(0, end < 0 ? 40 : end));
    const biased = model.generate(prompt, { temperature: 0, logitBias: { 1: 100 } });
    expect(await biased.result()).toMatchObject({
      text: '',
      tokens: [],
      finish: { reason: 'stop', stopId: 1 },
      usage: { completionTokens: 0 },
    });
  });

  it('ends at a stop text, which is not put out', async () => {
    const { text } = await model.generate(prompt, { ...greedy, maxTokens: 40 }).result();
    const stop = text.slice(20, 26);
    const stopped = await model.generate(prompt, { ...greedy, maxTokens: 40, stop }).result();
    expect(stopped.finish).toEqual({ reason: 'stop', stopString: stop });
    expect(stopped.text).toBe(text.slice(0, text.indexOf(stop)));
  });

  it('takes null for an option as if it was left out', async () => {
    const given = { topP: null, seed: null, stop: null, maxTokens: 12, ignoreStopIds: true };
    const drawn = () => ids(prompt, { ...given, temperature: 2 });
    expect(await drawn()).not.toEqual(await drawn());
    expect(await ids(prompt, { ...given, temperature: 0, logitBias: null })).toEqual(
      await ids(prompt, { ...greedy, maxTokens: 12 }),
    );
  });

  it('draws no token twice where a penalty forbids it', async () => {
    const options = { ...greedy, repetitionPenalty: 1e6, maxTokens: 30 };
    const tokens = await ids(prompt, options);
    expect(new Set(tokens).size).toBe(tokens.length);
  });

  it('gives nothing for no tokens', async () => {
    expect(await model.generate(prompt, { maxTokens: 0 }).result()).toMatchObject({
      text: '',
      finish: { reason: 'length' },
      usage: { completionTokens: 0 },
    });
  });

  it('ends where the context is full', async () => {
    const result = await model.generate(prompt, greedy).result();
    expect(result.finish).toEqual({ reason: 'length' });
    // The last token is drawn from a full context.
    expect(result.tokens).toHaveLength(100 - prompt.length + 1);
    const long = Array.from({ length: 101 }, (_, i) => i % 60);
    expect(() => model.generate(long, greedy)).toThrow(
      'The prompt has 101 tokens, more than the 100 that there is room for.',
    );
  });

  it('tells log-probabilities', async () => {
    const { tokens } = await model
      .generate(prompt, { ...greedy, maxTokens: 3, logprobs: true, topLogprobs: 2 })
      .result();
    for (const { id, logprob, topLogprobs } of tokens) {
      expect(topLogprobs).toHaveLength(2);
      expect(topLogprobs![0]).toEqual({ id, logprob });
      expect(logprob).toBeLessThanOrEqual(0);
    }
  });

  it('stops when its signal fires, and goes on with the next', async () => {
    const controller = new AbortController();
    const stream = model.generate(prompt, { ...greedy, signal: controller.signal });
    const take = async (): Promise<void> => {
      for await (const part of stream) if (part) controller.abort();
    };
    await expect(take()).rejects.toThrow(AbortedError);
    expect(await ids(prompt, { ...greedy, maxTokens: 3 })).toHaveLength(3);
  });

  it('stops when a loop is left', async () => {
    const stream = model.generate(prompt, greedy);
    for await (const part of stream) if (part) break;
    await expect(stream.result()).rejects.toThrow(AbortedError);
  });

  it('runs several at once', async () => {
    const options = { ...greedy, maxTokens: 12 };
    const prompts = [prompt, [5, 4, 3], [60, 2, 2, 2, 2, 2]];
    const alone: number[][] = [];
    for (const each of prompts) alone.push(await ids(each, options));
    expect(await Promise.all(prompts.map((each) => ids(each, options)))).toEqual(alone);
  });

  it.each<[GenerateOptions, string]>([
    [{ maxTokens: -1 }, 'maxTokens must be an integer of 0 or more, not -1.'],
    [{ temperature: -1 }, 'temperature must be a number of 0 or more, not -1.'],
    [{ stop: '' }, 'A stop string must be a text of at least one character.'],
    [{ topk: 3 } as object, 'There is no sampling option topk; did you mean topK?'],
  ])('refuses %j', (options, message) => {
    expect(() => model.generate(prompt, options)).toThrow(new UsageError(message));
  });

  it.each<[unknown, string]>([
    [[], 'The prompt is empty'],
    [[64], 'Token ids must be whole numbers from 0 to 63, not 64.'],
    [[-1, 3], 'from 0 to 63, not -1.'],
    [[1.5], 'from 0 to 63, not 1.5.'],
    [[NaN], 'from 0 to 63, not NaN.'],
    [undefined, 'A prompt is a text, a list of messages or a list of token ids, not nothing.'],
    [5, 'A prompt is a text'],
  ])('refuses the prompt %j at once', (given, message) => {
    expect(() => model.generate(given as number[])).toThrow(message);
    expect(() => model.generate(given as number[])).toThrow(UsageError);
  });

  it('goes on after an error in the middle', async () => {
    const expected = await ids(prompt, { ...greedy, maxTokens: 10 });
    const none = Object.fromEntries(Array.from({ length: 64 }, (_, id) => [id, -Infinity]));
    const refused = model.generate([...prompt, 7], { ...greedy, logitBias: none });
    await expect(refused.result()).rejects.toThrow('logitBias leaves no token to draw');
    expect(await ids(prompt, { ...greedy, maxTokens: 10 })).toEqual(expected);
    expect(await ids([...prompt, 7], { ...greedy, maxTokens: 3 })).toHaveLength(3);
  });
});

describe('batch', () => {
  it('gives each prompt what it gets alone', async () => {
    const prompts = [prompt, '12', [{ role: 'user', content: '2' }], [5, 4, 3]];
    const alone: string[] = [];
    const options = { ...greedy, maxTokens: 12 };
    for (const each of prompts) alone.push((await model.generate(each, options).result()).text);
    await using batch = model.batch({ maxSequences: 2 });
    const results = await Promise.all(
      prompts.map((each) => batch.generate(each, options).result()),
    );
    expect(results.map(({ text }) => text)).toEqual(alone);
    expect(batch.status).toMatchObject({ running: 0, waiting: 0, cells: 8192 });
  });

  it('ends where the context is full', async () => {
    await using batch = model.batch();
    expect(batch.contextLength).toBe(100);
    const { tokens } = await batch.generate(prompt, greedy).result();
    expect(tokens.map(({ id }) => id)).toEqual(await ids(prompt, greedy));
  });

  it.each([{ cells: 0 }, { maxSequences: 64 }, { prefillChunk: 1000 }, { sequences: 2 }])(
    'refuses %j',
    (options) => {
      expect(() => model.batch(options)).toThrow(UsageError);
    },
  );
});

describe('encode', () => {
  it('puts one token of the beginning before messages, though template and tokenizer both would', async () => {
    const folder = writeTinyLanguageModel(join(scratch, 'beginning'));
    const config = {
      ...{ bos_token: '<s>', eos_token: '</s>', add_bos_token: true },
      chat_template: '{{ bos_token }}' + tinyChatTemplate,
    };
    writeFileSync(join(folder, 'tokenizer_config.json'), JSON.stringify(config));
    await using loaded = await LanguageModel.load(folder);
    expect(loaded.encode([{ role: 'user', content: '2' }])).toEqual([0, 9, 4, 11, 10]);
    expect(loaded.encode('2')).toEqual([0, 4]);
  });
});

describe('load', () => {
  it('takes what generation_config.json recommends', async () => {
    const folder = writeTinyLanguageModel(join(scratch, 'greedy'), {
      generationConfig: { do_sample: false, eos_token_id: [1, 5] },
    });
    await using loaded = await LanguageModel.load(folder);
    const given = { ignoreStopIds: true, maxTokens: 10 };
    const { tokens } = await loaded.generate(prompt, given).result();
    expect(tokens.map(({ id }) => id)).toEqual(await ids(prompt, { ...greedy, maxTokens: 10 }));
    expect([...loaded.stopIds].sort()).toEqual([1, 5]);
  });

  it('refuses a tokenizer of more tokens than the model knows', async () => {
    const folder = writeTinyLanguageModel(join(scratch, 'few'));
    const vocab = Object.fromEntries(Array.from({ length: 200 }, (_, i) => [`t${i}`, i]));
    const tokenizer = join(scratch, 'many.json');
    writeFileSync(
      tokenizer,
      JSON.stringify({ model: { type: 'WordLevel', vocab, unk_token: 't0' } }),
    );
    await expect(LanguageModel.load(folder, { tokenizer })).rejects.toThrow(
      /many\.json is the tokenizer of another model: it has 200 tokens, and the model knows \d+\.$/,
    );
  });

  it('refuses a context that the model was not made for', async () => {
    const folder = writeTinyLanguageModel(join(scratch, 'long'));
    await expect(LanguageModel.load(folder, { maxContextLength: 10_000 })).rejects.toThrow(
      'The model was made for 256 tokens: a context of 10000 is too long.',
    );
  });

  it('ends texts that are under way', async () => {
    const loaded = await LanguageModel.load(writeTinyLanguageModel(join(scratch, 'disposed')));
    const stream = loaded.generate(prompt, greedy);
    const first = await stream[Symbol.asyncIterator]().next();
    expect(first.done).toBe(false);
    await loaded.dispose();
    await expect(stream.result()).rejects.toThrow(DisposedError);
    expect(() => loaded.generate(prompt)).toThrow(DisposedError);
  });
});

it('tells the perplexity of a text', async () => {
  const { tensors } = mx.loadSafetensors(fixturePath('tiny_llama_tied.safetensors'));
  const given = Array.from(await tensors.get('ids')!.data(), Number);
  const logits = tensors.get('logits')!;
  const chosen = logits
    .slice([0, 0], [given.length - 1, 64])
    .takeAlongAxis(mx.array(Int32Array.from(given.slice(1)), [given.length - 1, 1]), 1);
  const expected = logits
    .logsumexp(1)
    .slice([0], [given.length - 1])
    .subtract(chosen.squeeze(1));
  const { nll, perplexity, tokens } = await model.perplexity(given);
  expect(tokens).toBe(given.length - 1);
  const reference = await expected.data();
  nll.forEach((each, i) => expect(each).toBeCloseTo(reference[i] as number, 3));
  expect(perplexity).toBeCloseTo(Math.exp(await expected.mean().item()), 2);
  // Longer than the context: what is beyond half of it is read again.
  const long = Array.from({ length: 250 }, (_, i) => (i * 7) % 60);
  expect((await model.perplexity(long)).nll).toHaveLength(249);
  await expect(model.perplexity([1])).rejects.toThrow('at least 2 tokens');
});
