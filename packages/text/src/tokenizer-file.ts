/**
 * Checks what a tokenizer.json holds, as far as it is used: the library takes what it is given, and
 * fails later in words of its own or gives wrong ids.
 */

import { CheckpointError, quoted } from '@mlx-runners/mlx-core/errors';
import type { Component } from './pre-tokenizer-parity.js';

export interface AddedToken {
  id: number;
  content: string;
  special?: boolean;
}

/** The parts of a tokenizer.json that are read here; the library reads the rest. */
export interface TokenizerFile {
  added_tokens: AddedToken[];
  normalizer: Component | null;
  pre_tokenizer: Component | null;
  post_processor: Component | null;
  decoder: Component | null;
  model: {
    type?: string;
    vocab: Record<string, number> | [string, number][];
    merges?: unknown;
    /** By id, in place of merges: see scored-bpe.ts. No file has them; other formats become such a model. */
    scores?: ArrayLike<number>;
  };
}

const COMPONENTS = ['normalizer', 'pre_tokenizer', 'post_processor', 'decoder'] as const;
const MODEL_TYPES = ['BPE', 'Unigram', 'WordPiece', 'WordLevel'];

/** Ids are int32 in MLX. */
const LARGEST_ID = 2 ** 31 - 1;

/** More than any tokenizer has: of sequences in sequences, and of parts in a component. */
const DEEPEST = 8;
const MOST_PARTS = 64;

/** @throws CheckpointError, whose message begins with `source` */
export function checkedTokenizerFile(json: unknown, source: string): TokenizerFile {
  const wrong = (what: string) => new CheckpointError(`${source} is no usable tokenizer: ${what}.`);
  if (!isObject(json)) throw wrong('it is not an object');
  const { model, added_tokens: addedTokens = [] } = json;
  if (!isObject(model) || typeof model.vocab !== 'object' || model.vocab === null) {
    throw wrong('it has no model.vocab');
  }
  if (!Array.isArray(addedTokens) || !addedTokens.every(isAddedToken)) {
    throw wrong('added_tokens must be a list of { id, content }');
  }
  const components = COMPONENTS.map((name) => {
    const component = json[name] ?? null;
    const fault = faultOf(component) ?? faultOfParts(component);
    if (fault) throw wrong(`its ${name} ${fault}`);
    return [name, component] as const;
  });
  const file = {
    ...json,
    ...Object.fromEntries(components),
    added_tokens: addedTokens,
  } as unknown as TokenizerFile;
  const fault = faultOfModel(file.model);
  if (fault) throw wrong(fault);
  return file;
}

/** Merges are not looked up in the vocabulary: that would cost half of the load time. */
function faultOfModel({ type, vocab, merges }: TokenizerFile['model']): string | undefined {
  if (type !== undefined && type !== null && !MODEL_TYPES.includes(type)) {
    return `it has a model of type ${quoted(type)}; known are ${MODEL_TYPES.join(', ')}`;
  }
  const valid = Array.isArray(vocab)
    ? vocab.every((entry) => Array.isArray(entry) && typeof entry[0] === 'string')
    : Object.values(vocab).every(isId);
  if (!valid) return 'model.vocab must give every token an id (or, in a list, a score)';
  const isList = Array.isArray(vocab);
  if (isList ? type === 'BPE' || type === 'WordPiece' : type === 'Unigram') {
    return `model.vocab of ${type} must be ${isList ? 'an object' : 'a list'}`;
  }
  return type === 'BPE' && !Array.isArray(merges) ? 'it has no model.merges' : undefined;
}

/** What an option may be, in whichever component it is; null stands for none. */
const OPTIONS: Readonly<Record<string, (value: unknown) => boolean>> = {
  behavior: isText,
  content: isText,
  decoders: Array.isArray,
  normalizers: Array.isArray,
  pair: isTemplate,
  pattern: isPattern,
  prefix: isText,
  prepend: isText,
  prepend_scheme: isText,
  pretokenizers: Array.isArray,
  processors: Array.isArray,
  replacement: isText,
  single: isTemplate,
  start: isId,
  stop: isId,
  suffix: isText,
};

/** The option of a `Sequence` that lists its parts; one of these, by the kind of component. */
const LISTS = ['decoders', 'normalizers', 'pretokenizers', 'processors'];
const NEED_PATTERN = ['Replace', 'Split'];

function faultOf(component: unknown, depth = 0): string | undefined {
  if (component === null) return undefined;
  if (!isObject(component) || typeof component.type !== 'string') return 'has no type';
  if (depth > DEEPEST) return 'has sequences in sequences without end';
  const { type } = component;
  for (const [option, isValid] of Object.entries(OPTIONS)) {
    const value = component[option];
    if (value !== undefined && value !== null && !isValid(value)) {
      return `has the ${option} ${quoted(value)}`;
    }
  }
  if (NEED_PATTERN.includes(type) && !isPattern(component.pattern)) return 'lacks a pattern';
  const lists = LISTS.filter((list) => Array.isArray(component[list]));
  if (type === 'Sequence' && lists.length !== 1) return 'is a sequence without a list';
  for (const part of lists.flatMap((list) => component[list] as unknown[])) {
    const fault = part === null ? 'has a part that is null' : faultOf(part, depth + 1);
    if (fault) return fault;
  }
  return undefined;
}

/** Each ByteLevel makes two characters of one that is not ASCII: a few dozen would fill the memory. */
function faultOfParts(component: unknown): string | undefined {
  const types = typesIn(component);
  if (types.length > MOST_PARTS) return `has ${types.length} parts; ${MOST_PARTS} are allowed`;
  const byteLevels = types.filter((type) => type === 'ByteLevel');
  return byteLevels.length > 1 ? 'has more than one ByteLevel' : undefined;
}

/** The types of a component that was found to be one, and of its parts. */
function typesIn(component: unknown): unknown[] {
  if (!isObject(component)) return [];
  const parts = LISTS.flatMap((list) => (component[list] ?? []) as unknown[]);
  return [component.type, ...parts.flatMap(typesIn)];
}

function isText(value: unknown): boolean {
  return typeof value === 'string';
}

function isPattern(value: unknown): boolean {
  return isObject(value) && [value.Regex, value.String].some((text) => typeof text === 'string');
}

/** Every sequence in it repeats the text. */
function isTemplate(value: unknown): boolean {
  return Array.isArray(value) && value.length <= MOST_PARTS;
}

function isAddedToken(value: unknown): value is AddedToken {
  return isObject(value) && isId(value.id) && typeof value.content === 'string';
}

export function isId(value: unknown): value is number {
  return Number.isInteger(value) && (value as number) >= 0 && (value as number) <= LARGEST_ID;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
