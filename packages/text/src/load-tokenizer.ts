import { existsSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { llama2cTokenizerJson } from './llama2c-tokenizer.js';
import { readBytes, readJson } from './read-file.js';
import { sentencePieceModelJson } from './sentencepiece-model.js';
import { withTokenizerConfig } from './tokenizer-config.js';
import { checkedTokenizerFile } from './tokenizer-file.js';
import type { SpecialTokens } from './special-tokens.js';
import { Tokenizer } from './tokenizer.js';

/** In a folder, the first of these that is there. */
const FILES = ['tokenizer.json', 'tokenizer.model', 'tokenizer.bin'];

/**
 * Reads a tokenizer.json, a SentencePiece `.model` of type BPE or llama2.c's `tokenizer.bin`; the
 * tokenizer_config.json beside it, where there is one, counts before it. For GGUF files there is
 * `Tokenizer.fromGguf`.
 *
 * @param path the file, or the folder that holds it
 * @throws CheckpointError when there is none, or it can't be used
 */
export async function loadTokenizer(path: string): Promise<Tokenizer> {
  const file = tokenizerFile(path) ?? join(path, FILES[0]);
  const { json, specialTokens: own } = await readTokenizer(file);
  const checked = checkedTokenizerFile(json, file);
  const configPath = join(dirname(file), 'tokenizer_config.json');
  if (!existsSync(configPath)) return Tokenizer.fromJson(checked, file, own);
  const config = await readJson(configPath);
  const configured = withTokenizerConfig(config, checked, configPath);
  return Tokenizer.fromJson(configured.file, file, { ...own, ...configured.specialTokens });
}

/** The file that `loadTokenizer` reads: the one that is named, or that of a folder, if it has one. */
export function tokenizerFile(path: string): string | undefined {
  if (!statSync(path, { throwIfNoEntry: false })?.isDirectory()) return path;
  const found = FILES.find((name) => existsSync(join(path, name)));
  return found === undefined ? undefined : join(path, found);
}

/** What a file says as a tokenizer.json, and the ids of special tokens that this does not tell. */
export async function readTokenizer(
  file: string,
): Promise<{ json: unknown; specialTokens: SpecialTokens }> {
  if (basename(file).endsWith('.model')) {
    return sentencePieceModelJson(await readBytes(file), file);
  }
  if (basename(file).endsWith('.bin')) return llama2cTokenizerJson(await readBytes(file), file);
  return { json: await readJson(file), specialTokens: {} };
}
