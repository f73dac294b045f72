import { UsageError } from '@mlx-runners/mlx-core/errors';
import { Option, type Command } from 'commander';
import * as schemas from './option-schemas.js';
import { nonEmpty, valueOf, wholeNumber } from './option-values.js';

/** What `command.opts()` then holds: the options of a text's generation, as the library has them. */
export interface GenerationOptions {
  readonly maxTokens?: number;
  readonly temperature?: number;
  readonly topK?: number;
  readonly topP?: number;
  readonly minP?: number;
  readonly typicalP?: number;
  readonly xtcProbability?: number;
  readonly xtcThreshold?: number;
  readonly repetitionPenalty?: number;
  readonly presencePenalty?: number;
  readonly frequencyPenalty?: number;
  readonly logitBias?: Readonly<Record<number, number>>;
  readonly stop?: readonly string[];
  readonly ignoreStopIds?: boolean;
  readonly seed?: bigint;
}

const counts: readonly [flag: string, description: string][] = [
  [
    '--max-tokens <n>',
    'the most tokens of an answer; as many as the context has room for unless given',
  ],
  [
    '--top-k <n>',
    'choose only among the n likeliest tokens; 0 (all) unless given or recommended by the model',
  ],
];

const numbers: readonly [flag: string, description: string][] = [
  [
    '--temperature <t>',
    'how freely tokens are chosen: 0 always takes the likeliest; 0.7 unless given or recommended by the model',
  ],
  [
    '--top-p <p>',
    'choose only among the likeliest tokens, which together have this probability; 1 (all) unless given or recommended by the model',
  ],
  [
    '--min-p <p>',
    'drop tokens with less than this share of the best probability; 0 (none) unless given or recommended by the model',
  ],
  [
    '--typical-p <p>',
    'choose only among tokens about as surprising as is usual, which together have this probability; 1 (all) unless given',
  ],
  [
    '--xtc-probability <p>',
    'how often (0 to 1) the likeliest tokens are dropped, so that a less usual one is chosen; 0 unless given',
  ],
  [
    '--xtc-threshold <p>',
    'the probability from which --xtc-probability drops tokens; 0.1 unless given',
  ],
  [
    '--repetition-penalty <x>',
    'above 1: tokens already in the answer become less likely; 1 (none) unless given or recommended by the model',
  ],
  [
    '--presence-penalty <x>',
    'above 0: as much is taken off the logit of each token already in the answer; -2 to 2, 0 (none) unless given',
  ],
  ['--frequency-penalty <x>', 'as --presence-penalty, once for each time that the token was used'],
];

/**
 * `--max-tokens`, `--temperature`, `--top-k` … `--stop`, `--seed`: how text is drawn. Only their form is checked
 * here: limits are those of the library, which `checkGenerationOptions` of @mlx-runners/lm asks before any work.
 */
export function withGenerationOptions<C extends Command>(command: C): C {
  const add = (flags: string, text: string, parser: (value: string) => unknown): void => {
    command.addOption(new Option(flags, text).argParser(parser));
  };
  const flagOf = (flags: string): string => flags.split(' ')[0];
  for (const [flags, text] of counts) add(flags, text, wholeNumber(flagOf(flags)));
  for (const [flags, text] of numbers) {
    add(flags, text, valueOf(flagOf(flags), schemas.finiteNumber()));
  }
  const bias: Record<number, number> = {};
  add(
    '--logit-bias <id=value,…>',
    'make tokens likelier or less likely: added to their logits, by id; -100 to 100, -inf for never',
    (text) => Object.assign(bias, parseBias(text)),
  );
  const stops: string[] = [];
  add(
    '--stop <text>',
    'end the answer where this text comes, which is left out; repeatable',
    (text) => {
      stops.push(nonEmpty('--stop')(text));
      return stops;
    },
  );
  command.option('--ignore-stop-ids', 'go on after the tokens that end an answer');
  add('--seed <n>', 'the same number gives the same text; a new one unless given', parseSeed);
  return command;
}

/** Any integer: more than numbers hold exactly. */
function parseSeed(text: string): bigint {
  if (/^[+-]?\d+$/.test(text)) return BigInt(text.replace('+', ''));
  throw new UsageError(`--seed must be a whole number; got '${text}'.`);
}

function parseBias(text: string): Record<number, number> {
  const pairs = text.split(',').map((pair) => {
    const [id, value, ...rest] = pair.split('=');
    const bias = value === '-inf' ? -Infinity : Number(value);
    if (rest.length === 0 && /^\d+$/.test(id) && value?.trim() && !Number.isNaN(bias)) {
      return [Number(id), bias] as const;
    }
    throw new UsageError(`--logit-bias must be pairs such as 198=-5,42=-inf; got '${text}'.`);
  });
  return Object.fromEntries(pairs);
}
