/** The tokenizer, chat template and generation defaults of a converted checkpoint. */
import { cpSync, existsSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { writeWholeFile } from '@mlx-runners/mlx-core/whole-file';
import { readJsonFile } from '@mlx-runners/nn';
import {
  ggufTokenizerFiles,
  loadTokenizer,
  pieceTokenizerFiles,
  Tokenizer,
  tokenizerFile,
  type HuggingFaceFiles,
} from '@mlx-runners/text';
import type { DecoderCheckpoint } from './checkpoint.js';
import { stopIds } from './stop-ids.js';

/** Beside the weights in a folder of Hugging Face or MLX, and none of their business. */
const TEXTS = [
  'chat_template.jinja',
  'chat_template.json',
  'additional_chat_templates',
  'generation_config.json',
];
const TOKENIZER_TEXTS = [
  'tokenizer.json',
  'tokenizer_config.json',
  'tokenizer.model',
  'special_tokens_map.json',
  'added_tokens.json',
  'vocab.json',
  'merges.txt',
];

/**
 * Writes them to a folder: copied from a folder, or made of a GGUF file's metadata or of the pieces beside a file of
 * llama2.c.
 *
 * @param source as it was given to `readDecoderCheckpoint`
 * @param tokenizer as `loadTokenizer` takes it, in the place of the checkpoint's own
 * @returns the ids of special tokens, which belong into config.json
 */
export async function writeTexts(
  folder: string,
  source: string,
  { source: file, metadata, config }: DecoderCheckpoint,
  tokenizer?: string,
): Promise<Record<string, unknown>> {
  if (metadata && tokenizer === undefined) {
    await writeFiles(folder, ggufTokenizerFiles(metadata, file));
    return await writeGenerationConfig(folder, Tokenizer.fromGguf(metadata, file), config);
  }
  const from = statSync(source).isDirectory() ? source : dirname(source);
  copy(from, tokenizer === undefined ? [...TEXTS, ...TOKENIZER_TEXTS] : TEXTS, folder);
  const found = tokenizerFile(tokenizer ?? from);
  if (found === undefined) return {};
  if (tokenizer !== undefined) copy(dirname(found), ['tokenizer_config.json'], folder);
  if (found.endsWith('.json')) {
    if (tokenizer !== undefined) cpSync(found, join(folder, 'tokenizer.json'));
    return {};
  }
  await writePieces(folder, await pieceTokenizerFiles(found));
  if (existsSync(join(folder, 'generation_config.json'))) return {};
  return await writeGenerationConfig(folder, await loadTokenizer(folder), config);
}

/** Those that are there. */
function copy(from: string, names: readonly string[], folder: string): void {
  for (const name of names.filter((each) => existsSync(join(from, each)))) {
    cpSync(join(from, name), join(folder, name), { recursive: true, dereference: true });
  }
}

/** What a tokenizer_config.json that was copied says counts before what pieces tell. */
async function writePieces(folder: string, files: HuggingFaceFiles): Promise<void> {
  const name = 'tokenizer_config.json';
  const path = join(folder, name);
  const copied = existsSync(path) ? (readJsonFile(path) as object) : {};
  await writeFiles(folder, { ...files, [name]: { ...files[name], ...copied } });
}

async function writeFiles(folder: string, files: HuggingFaceFiles): Promise<void> {
  for (const [name, content] of Object.entries(files)) await writeJson(folder, name, content);
}

export async function writeJson(folder: string, name: string, content: unknown): Promise<void> {
  await writeWholeFile(join(folder, name), `${JSON.stringify(content, null, 2)}\n`);
}

async function writeGenerationConfig(
  folder: string,
  tokenizer: Tokenizer,
  config: DecoderCheckpoint['config'],
): Promise<Record<string, unknown>> {
  const { bos, padding } = tokenizer.specialTokens;
  const ends = [...stopIds({ tokenizer, config: config as Record<string, unknown> })];
  const ids = {
    ...(bos === undefined ? {} : { bos_token_id: bos }),
    ...(ends.length === 0 ? {} : { eos_token_id: ends.length === 1 ? ends[0] : ends }),
    ...(padding === undefined ? {} : { pad_token_id: padding }),
  };
  await writeJson(folder, 'generation_config.json', ids);
  return ids;
}
