/**
 * How text is split before byte-level BPE, by the name that a GGUF file gives (`tokenizer.ggml.pre`).
 * The regular expressions are those of the models' own tokenizer.json files; which name stands for which
 * follows llama.cpp (src/llama-vocab.cpp).
 */

import type { Component } from './pre-tokenizer-parity.js';

export interface PreTokenizer {
  preTokenizer: Component;
  normalizer?: Component;
  /** Whether a word that is a token is taken whole, whatever the merges say. */
  ignoresMerges?: boolean;
  /** Whether texts begin with bos where the file doesn't say. */
  addsBos?: boolean;
}

const CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
const REST = '| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+';
const CASED_LETTERS = (contractions: string) =>
  `[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+${contractions}` +
  `|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*${contractions}`;
const CASED_REST = '| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+';

const LLAMA3 = `${CONTRACTIONS}|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}${REST}`;
const QWEN2 = `${CONTRACTIONS}|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}${REST}`;
const QWEN35 =
  `${CONTRACTIONS}|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}` +
  '| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+';
const TEKKEN = `${CASED_LETTERS('')}|\\p{N}${CASED_REST}`;
const GPT4O = `${CASED_LETTERS(`${CONTRACTIONS}?`)}|\\p{N}{1,3}${CASED_REST}`;

const gpt2 = byteLevel(true);

function byteLevel(splits: boolean): Component {
  return { type: 'ByteLevel', add_prefix_space: false, use_regex: splits };
}

function split(regex: string): Component {
  return { type: 'Split', pattern: { Regex: regex }, behavior: 'Isolated', invert: false };
}

function sequence(...pretokenizers: Component[]): Component {
  return { type: 'Sequence', pretokenizers };
}

function byRegex(regex: string): Component {
  return sequence(split(regex), byteLevel(false));
}

const NFC: Component = { type: 'NFC' };

const KINDS: readonly [names: readonly string[], kind: PreTokenizer][] = [
  [
    ['gpt-2', 'phi-2', 'mpt', 'olmo', 'jais', 'trillion', 'granite-docling', 'exaone4', 'mellum'],
    { preTokenizer: gpt2 },
  ],
  [
    ['smollm', 'starcoder', 'refact', 'command-r', 'codeshell', 'exaone', 'minerva-7b'],
    { preTokenizer: sequence({ type: 'Digits', individual_digits: true }, gpt2) },
  ],
  [
    ['llama-bpe', 'llama3', 'llama-v3', 'falcon3', 'falcon-h1', 'pixtral', 'lfm2', 'midm-2.0'],
    { preTokenizer: byRegex(LLAMA3), ignoresMerges: true, addsBos: true },
  ],
  [['dbrx', 'smaug-bpe', 'chatglm-bpe', 'glm4'], { preTokenizer: byRegex(LLAMA3) }],
  [
    ['qwen2', 'deepseek-r1-qwen', 'megrez', 'kormo', 'f2llmv2'],
    { preTokenizer: byRegex(QWEN2), normalizer: NFC },
  ],
  [['stablelm2', 'hunyuan', 'grok-2', 'solar-open'], { preTokenizer: byRegex(QWEN2) }],
  [['qwen35'], { preTokenizer: byRegex(QWEN35), normalizer: NFC }],
  [['tekken'], { preTokenizer: byRegex(TEKKEN), ignoresMerges: true, addsBos: true }],
  [['gpt-4o', 'llama4', 'kanana2', 'minimax-m2'], { preTokenizer: byRegex(GPT4O) }],
  [
    // Files from before the name was written; llama.cpp has these splits for them.
    ['default'],
    {
      preTokenizer: sequence(
        split('[\\p{P}\\$\\+<=>\\^~\\|]+'),
        split("'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)"),
        split('\\p{N}+'),
        split('[0-9][0-9][0-9]'),
        byteLevel(false),
      ),
    },
  ],
];

const BY_NAME = new Map(
  KINDS.flatMap(([names, kind]) => names.map((name) => [name, kind] as const)),
);

export const ggufPreTokenizerNames: readonly string[] = [...BY_NAME.keys()];

export function ggufPreTokenizer(name: string): PreTokenizer | undefined {
  return BY_NAME.get(name);
}
