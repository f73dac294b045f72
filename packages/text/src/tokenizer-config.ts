/**
 * `tokenizer_config.json`: which tokens begin and end a text, and tokens that the tokenizer.json lacks.
 * What it says counts before what the tokenizer.json says, as in transformers (TokenizersBackend).
 */

import { CheckpointError, quoted } from '@mlx-runners/mlx-core/errors';
import { framingProcessor, type SpecialTokens } from './special-tokens.js';
import type { AddedToken, TokenizerFile } from './tokenizer-file.js';

const ROLES: readonly (readonly [keyof SpecialTokens, string])[] = [
  ['bos', 'bos_token'],
  ['eos', 'eos_token'],
  ['unknown', 'unk_token'],
  ['padding', 'pad_token'],
];

/**
 * @param config the parsed tokenizer_config.json
 * @param file the tokenizer.json that belongs to it
 * @returns the tokenizer.json with the config's tokens and frame, and the ids of the special tokens
 * @throws CheckpointError when the config is not one
 */
export function withTokenizerConfig(
  config: unknown,
  file: TokenizerFile,
  source: string,
): { file: TokenizerFile; specialTokens: SpecialTokens } {
  const fields = configFields(config, source);
  const tokens = new Map(file.added_tokens.map((token) => [token.content, token]));
  const vocab = idsOf(file);
  let next = file.added_tokens.reduce((end, { id }) => Math.max(end, id + 1), vocab.size);
  for (const [key, token] of Object.entries(fields.addedTokens)) {
    tokens.set(token.content, { ...token, id: Number(key) });
    next = Math.max(next, Number(key) + 1);
  }
  const roles = new Map<keyof SpecialTokens, AddedToken>();
  for (const [role, content] of fields.roles) {
    const known = tokens.get(content);
    const id = known?.id ?? vocab.get(content) ?? next++;
    const token = { normalized: false, ...known, id, content, special: true };
    tokens.set(content, token);
    roles.set(role, token);
  }
  const { addBos, addEos } = fields;
  const frames = addBos !== undefined || addEos !== undefined || file.post_processor === null;
  const bos = addBos ? roles.get('bos') : undefined;
  const eos = addEos ? roles.get('eos') : undefined;
  return {
    file: {
      ...file,
      added_tokens: [...tokens.values()],
      post_processor: frames
        ? (framingProcessor({ bos, eos }) as TokenizerFile['post_processor'])
        : file.post_processor,
    },
    specialTokens: Object.fromEntries([...roles].map(([role, { id }]) => [role, id])),
  };
}

function idsOf({ model: { vocab } }: TokenizerFile): Map<string, number> {
  return Array.isArray(vocab)
    ? new Map(vocab.map(([token], id) => [token, id]))
    : new Map(Object.entries(vocab));
}

interface ConfigFields {
  roles: [keyof SpecialTokens, string][];
  addedTokens: Record<string, AddedToken>;
  addBos: boolean | undefined;
  addEos: boolean | undefined;
}

function configFields(config: unknown, source: string): ConfigFields {
  const wrong = (what: string) =>
    new CheckpointError(`${source} is no usable configuration: ${what}.`);
  if (!isObject(config)) throw wrong('it is not an object');
  const flag = (name: string): boolean | undefined => {
    const value = config[name] ?? undefined;
    if (value === undefined || typeof value === 'boolean') return value;
    throw wrong(`${name} must be true or false, not ${quoted(value)}`);
  };
  const roles: ConfigFields['roles'] = [];
  for (const [role, name] of ROLES) {
    const value = config[name] ?? undefined;
    if (value === undefined) continue;
    const content = isObject(value) ? value.content : value;
    if (typeof content !== 'string') throw wrong(`${name} must be a token, not ${quoted(value)}`);
    roles.push([role, content]);
  }
  const addedTokens = config.added_tokens_decoder ?? {};
  if (
    !isObject(addedTokens) ||
    !Object.entries(addedTokens).every(
      ([key, token]) =>
        /^\d{1,9}$/.test(key) && isObject(token) && typeof token.content === 'string',
    )
  ) {
    throw wrong('added_tokens_decoder must give tokens by their ids');
  }
  return {
    roles,
    addedTokens: addedTokens as unknown as Record<string, AddedToken>,
    addBos: flag('add_bos_token'),
    addEos: flag('add_eos_token'),
  };
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
