/** Tokenizers of other files as Hugging Face's `tokenizer.json` and `tokenizer_config.json`. */

import { ggufChatTemplateSources } from './load-chat-template.js';
import { ggufTokenizerJson, type GgufMetadata } from './gguf-tokenizer.js';
import { readTokenizer } from './load-tokenizer.js';
import type { Component } from './pre-tokenizer-parity.js';
import type { SpecialTokens } from './special-tokens.js';
import type { TokenizerJson } from './token-list.js';

/** Contents of files, by their names. */
export interface HuggingFaceFiles {
  'tokenizer.json': object;
  'tokenizer_config.json': object;
}

/**
 * The files that say what the metadata of a GGUF file say.
 *
 * @param source what messages call the file
 * @throws CheckpointError when there is no tokenizer, or it is of a kind that is not supported
 */
export function ggufTokenizerFiles(metadata: GgufMetadata, source: string): HuggingFaceFiles {
  const { json, specialTokens } = ggufTokenizerJson(metadata, source);
  const templates = ggufChatTemplateSources(metadata, source);
  return filesOf(json, specialTokens, templates);
}

/**
 * The files that say what a `tokenizer.model` or `tokenizer.bin` says.
 *
 * @throws CheckpointError when it can't be used
 */
export async function pieceTokenizerFiles(path: string): Promise<HuggingFaceFiles> {
  const { json, specialTokens } = await readTokenizer(path);
  return filesOf(json as TokenizerJson, specialTokens, undefined);
}

function filesOf(
  json: TokenizerJson,
  specialTokens: SpecialTokens,
  templates: Readonly<Record<string, string>> | undefined,
): HuggingFaceFiles {
  const model = json.model as Component & { vocab: Record<string, number> };
  const tokens = Object.keys(model.vocab);
  const tokenOf = new Map(tokens.map((token) => [model.vocab[token], token]));
  const roles = { bos: 'bos_token', eos: 'eos_token', unknown: 'unk_token', padding: 'pad_token' };
  const named = Object.entries(roles).flatMap(([role, name]) => {
    const id = specialTokens[role as keyof SpecialTokens];
    return id === undefined ? [] : [[name, tokenOf.get(id)] as const];
  });
  const names = Object.keys(templates ?? {});
  const template =
    names.length === 1 && names[0] === 'default'
      ? templates!.default
      : names.map((name) => ({ name, template: templates![name] }));
  return {
    'tokenizer.json': wholeTokenizerJson(json),
    'tokenizer_config.json': {
      tokenizer_class: 'PreTrainedTokenizerFast',
      clean_up_tokenization_spaces: false,
      ...Object.fromEntries(named),
      ...(names.length > 0 ? { chat_template: template } : {}),
    },
  };
}

/** With the fields that Rust's reader wants and ours can do without. */
function wholeTokenizerJson({
  added_tokens,
  normalizer,
  pre_tokenizer,
  post_processor,
  decoder,
  model,
}: TokenizerJson): object {
  const { vocab, scores, merges, unk_token, byte_fallback, ignore_merges } = model as ModelParts;
  const plain = { single_word: false, lstrip: false, rstrip: false };
  return {
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: (added_tokens as object[]).map((token) => ({ ...plain, ...token })),
    normalizer,
    pre_tokenizer: withTrimming(pre_tokenizer as Component | null),
    post_processor,
    decoder: withTrimming(decoder as Component | null),
    model: {
      type: 'BPE',
      dropout: null,
      unk_token: unk_token ?? null,
      continuing_subword_prefix: null,
      end_of_word_suffix: null,
      fuse_unk: scores !== undefined,
      byte_fallback: byte_fallback ?? false,
      ignore_merges: ignore_merges ?? false,
      vocab,
      merges: scores ? mergesOf(vocab, scores) : merges.map((merge) => merge.split(' ')),
    },
  };
}

interface ModelParts {
  vocab: Record<string, number>;
  merges: string[];
  scores?: ArrayLike<number>;
  unk_token?: string | null;
  byte_fallback?: boolean;
  ignore_merges?: boolean;
}

/** ByteLevel's other fields, which our own reader knows the values of. */
function withTrimming(component: Component | null): Component | null {
  if (!component) return null;
  const filled = { add_prefix_space: false, trim_offsets: false, use_regex: true };
  if (component.type === 'ByteLevel') return { ...filled, ...component };
  const parts = component.pretokenizers as Component[] | undefined;
  return parts ? { ...component, pretokenizers: parts.map(withTrimming) } : component;
}

/** All ways to make a token of two others, in the order in which scoredBpe takes them. */
function mergesOf(
  vocab: Readonly<Record<string, number>>,
  scores: ArrayLike<number>,
): [left: string, right: string][] {
  const merges: { left: string; right: string; score: number }[] = [];
  for (const token of Object.keys(vocab)) {
    const score = scores[vocab[token]];
    const characters = Array.from(token);
    for (let cut = 1; cut < characters.length; cut++) {
      const left = characters.slice(0, cut).join('');
      const right = characters.slice(cut).join('');
      if (vocab[left] !== undefined && vocab[right] !== undefined) {
        merges.push({ left, right, score });
      }
    }
  }
  const lengthOf = (text: string): number => Array.from(text).length;
  merges.sort((a, b) => b.score - a.score || lengthOf(b.left) - lengthOf(a.left));
  return merges.map(({ left, right }) => [left, right]);
}
