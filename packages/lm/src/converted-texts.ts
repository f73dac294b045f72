/** The tokenizer, chat template and generation defaults of a converted checkpoint. */
import { cpSync, existsSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { writeWholeFile } from '@mlx-runners/mlx-core/whole-file';
import {
  ggufTokenizerFiles,
  pieceTokenizerFiles,
  Tokenizer,
  type HuggingFaceFiles,
} from '@mlx-runners/text';
import type { DecoderCheckpoint } from './checkpoint.js';
import { stopIds } from './stop-ids.js';

/** Beside the weights in a folder of Hugging Face or MLX, and none of their business. */
const TEXTS = [
  'tokenizer.json',
  'tokenizer_config.json',
  'tokenizer.model',
  'special_tokens_map.json',
  'added_tokens.json',
  'vocab.json',
  'merges.txt',
  'chat_template.jinja',
  'chat_template.json',
  'additional_chat_templates',
  'generation_config.json',
];

/**
 * Writes them to a folder: copied from a folder, or made of a GGUF file's metadata or of the pieces beside a file of
 * llama2.c.
 *
 * @param source as it was given to `readDecoderCheckpoint`
 * @returns the ids of special tokens, which belong into config.json
 */
export async function writeTexts(
  folder: string,
  source: string,
  { source: file, metadata, config }: DecoderCheckpoint,
): Promise<Record<string, unknown>> {
  if (metadata) {
    await writeFiles(folder, ggufTokenizerFiles(metadata, file));
    return await writeGenerationConfig(folder, Tokenizer.fromGguf(metadata, file), config);
  }
  const from = statSync(source).isDirectory() ? source : dirname(source);
  for (const name of TEXTS.filter((each) => existsSync(join(from, each)))) {
    cpSync(join(from, name), join(folder, name), { recursive: true, dereference: true });
  }
  const pieces = ['tokenizer.model', 'tokenizer.bin']
    .map((name) => join(from, name))
    .find((path) => existsSync(path));
  if (pieces === undefined || existsSync(join(folder, 'tokenizer.json'))) return {};
  const files = await pieceTokenizerFiles(pieces);
  await writeFiles(folder, files);
  return await writeGenerationConfig(folder, Tokenizer.fromJson(files['tokenizer.json']), config);
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
