import { CheckpointError, quoted } from '@mlx-runners/mlx-core/errors';
import type { Tokenizer } from '@mlx-runners/text';

/** Where a model's files may say which tokens end its answers. */
export interface StopIdSources {
  /** The parsed generation_config.json. */
  generationConfig?: Readonly<Record<string, unknown>>;
  /** The parsed config.json; of models with several parts, `text_config` counts, too. */
  config?: Readonly<Record<string, unknown>>;
  /** Its end-of-text, end-of-turn and end-of-message tokens, out of whichever file. */
  tokenizer?: Tokenizer;
  /** The chat templates' texts: an end token that one writes ends a turn. */
  templates?: readonly string[];
}

/** Tokens that end a turn in public models' templates; some files declare another one as their end. */
const END_TOKENS = [
  '<|eot_id|>',
  '<|eom_id|>',
  '<|im_end|>',
  '<|end|>',
  '<|return|>',
  '<|end_of_text|>',
  '<|endoftext|>',
  '<|endofturn|>',
  '<|END_OF_TURN_TOKEN|>',
  '<end_of_turn>',
  '<turn|>',
  '<end_of_utterance>',
  '<｜end▁of▁sentence｜>',
  '</s>',
];

/**
 * The ids that end an answer: those of all sources together, since each is incomplete in some models.
 *
 * @throws CheckpointError for an `eos_token_id` that is neither an id nor a list of ids
 */
export function stopIds(sources: StopIdSources): Set<number> {
  const { generationConfig, config, tokenizer, templates = [] } = sources;
  const ids = new Set<number>();
  const textConfig = config?.text_config as Readonly<Record<string, unknown>> | null | undefined;
  for (const [name, holder] of [
    ['generation_config.json', generationConfig],
    ['config.json', config],
    ['config.json (text_config)', textConfig],
  ] as const) {
    for (const id of idsIn(holder?.eos_token_id, name)) ids.add(id);
  }
  if (!tokenizer) return ids;
  const { eos, eot, eom } = tokenizer.specialTokens;
  for (const id of [eos, eot, eom]) if (id !== undefined) ids.add(id);
  for (const token of END_TOKENS) {
    const id = tokenizer.tokenToId(token);
    if (id !== undefined && templates.some((template) => template.includes(token))) ids.add(id);
  }
  return ids;
}

function idsIn(value: unknown, source: string): number[] {
  if (value === undefined || value === null) return [];
  const ids: unknown[] = Array.isArray(value) ? value : [value];
  const isId = (id: unknown): id is number => Number.isInteger(id) && (id as number) >= 0;
  if (ids.every(isId)) return ids;
  throw new CheckpointError(
    `${source}: eos_token_id must be a token id or a list of them, not ${quoted(value)}.`,
  );
}
