/** Goldens that are JSON: what the reference made of real prompts and texts with a model's real weights. */
import { findModelSource } from '@mlx-runners/hub';
import { CheckpointError, quoted } from '@mlx-runners/mlx-core';
import type { LanguageModel } from '@mlx-runners/lm';
import {
  compareFloats,
  compareIntegers,
  type GoldenChecker,
  type GoldenResult,
} from '@mlx-runners/runner';
import { z } from 'zod';
import { manifest } from './manifest.js';
import { load, type LlmLoadOptions } from './pipeline.js';

const messages = z.array(z.object({ role: z.string(), content: z.string() }));
const ids = z.array(z.int());

const greedySchema = z.object({
  model: z.string(),
  cases: z.array(
    z.object({
      messages: messages.optional(),
      prompt: z.string().optional(),
      prompt_ids: ids,
      greedy_ids: ids,
      greedy_text: z.string(),
      top5_first: z.array(z.object({ id: z.int(), logit: z.number() })),
    }),
  ),
});

const perplexitySchema = z.object({
  model: z.string(),
  text: z.string(),
  ids,
  nll: z.array(z.number()),
  perplexity: z.number(),
});

export type GoldenOptions = Pick<LlmLoadOptions, 'precision'>;

// A reference may have rounded weights to float16.
const logitTolerance = 1e-2;

/** Largest errors of a perplexity, relative to it. */
const perplexityTolerance = { exact: 1e-3, fast: 5e-3 };

/** Greedy texts, which are equal in `exact` only. */
export const greedyGolden: GoldenChecker<GoldenOptions> = {
  matches: (fixture) => fixture.kind === 'json' && greedySchema.safeParse(fixture.json).success,

  async check(fixture, options) {
    if (fixture.kind !== 'json') return [];
    const { model: name, cases } = greedySchema.parse(fixture.json);
    await using model = await loadByName(name, options);
    const results: GoldenResult[] = [];
    for (const [i, each] of cases.entries()) results.push(...(await checkCase(model, i, each)));
    return results;
  },
};

async function checkCase(
  model: LanguageModel,
  number: number,
  { messages: said, prompt, ...expected }: z.infer<typeof greedySchema>['cases'][number],
): Promise<GoldenResult[]> {
  const name = `case ${number}`;
  const given = model.encode(said ?? prompt ?? expected.prompt_ids);
  const results = [
    await compareIntegers(`${name}, prompt`, list(given), list(expected.prompt_ids)),
  ];
  const top = expected.top5_first;
  const { tokens, text } = await model
    .generate(expected.prompt_ids, {
      temperature: 0,
      ignoreStopIds: true,
      maxTokens: expected.greedy_ids.length,
      logprobs: true,
      topLogprobs: top.length,
    })
    .result();
  const drawn = list(tokens.map(({ id }) => id));
  results.push(await compareIntegers(`${name}, greedy ids`, drawn, list(expected.greedy_ids)));
  const first = tokens[0].topLogprobs!;
  const order = list(first.map(({ id }) => id));
  results.push(
    await compareIntegers(`${name}, likeliest first`, order, list(top.map(({ id }) => id))),
  );
  // Of logits the log-probabilities tell the distances alone.
  const distances = (values: readonly number[]) => list(values.map((value) => values[0] - value));
  results.push(
    await compareFloats(
      `${name}, their logits`,
      distances(first.map(({ logprob }) => logprob)),
      distances(top.map(({ logit }) => logit)),
      logitTolerance,
    ),
  );
  results.push(
    await compareIntegers(`${name}, text`, characters(text), characters(expected.greedy_text)),
  );
  return results;
}

/** Perplexities, and each token's negative log-likelihood. */
export const perplexityGolden: GoldenChecker<GoldenOptions> = {
  matches: (fixture) => fixture.kind === 'json' && perplexitySchema.safeParse(fixture.json).success,

  async check(fixture, options) {
    if (fixture.kind !== 'json') return [];
    const expected = perplexitySchema.parse(fixture.json);
    const { precision = 'exact' } = options;
    await using model = await loadByName(expected.model, options);
    const given = model.encode(expected.text);
    const { nll, perplexity } = await model.perplexity(expected.ids);
    const tolerance = perplexityTolerance[precision];
    return [
      await compareIntegers('ids', list(given), list(expected.ids)),
      await compareFloats('perplexity', list([perplexity]), list([expected.perplexity]), tolerance),
      await compareFloats('nll', list([...nll]), list(expected.nll), 20 * tolerance),
    ];
  },
};

function list(data: readonly number[]): { shape: number[]; data: readonly number[] } {
  return { shape: [data.length], data };
}

function characters(text: string): ReturnType<typeof list> {
  return list(Array.from(text, (character) => character.codePointAt(0)!));
}

/** `Gemma 3 270m` is known as gemma-3-270m. */
async function loadByName(name: string, options: GoldenOptions): Promise<LanguageModel> {
  const aliases = Object.values(manifest.models).flatMap((model) => model.aliases ?? []);
  const wanted = name.toLowerCase().replaceAll(' ', '-');
  const alias = aliases.find((each) => each.toLowerCase() === wanted) ?? name;
  if (findModelSource(manifest.models, alias)) return await load(alias, options);
  throw new CheckpointError(`The golden is of ${quoted(name)}, which runner.json doesn't have.`);
}
