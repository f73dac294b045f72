/** Where chat templates are kept: in the files of a folder, and in the metadata of a GGUF file. */

import { CheckpointError, quoted } from '@mlx-runners/mlx-core/errors';
import { existsSync, readdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { ChatTemplate, type TemplateTokens } from './chat-template.js';
import type { GgufMetadata } from './gguf-tokenizer.js';
import { readBytes, readJson } from './read-file.js';

/**
 * The chat template of a model's folder: `chat_template.jinja` with those in `additional_chat_templates`, else
 * what `chat_template.json` or `tokenizer_config.json` says; with the special tokens of the latter.
 *
 * @returns nothing where there is none, as for base models
 * @throws CheckpointError when a file can't be read, or has no usable template
 */
export async function loadChatTemplate(folder: string): Promise<ChatTemplate | undefined> {
  const configFile = join(folder, 'tokenizer_config.json');
  const config = existsSync(configFile) ? await readJson(configFile) : {};
  if (!isObject(config)) throw new CheckpointError(`${configFile} is not an object.`);
  const tokens = tokensOf(config);
  const ownFile = join(folder, 'chat_template.jinja');
  if (existsSync(ownFile)) {
    const sources: Record<string, string> = { default: await readText(ownFile) };
    const others = join(folder, 'additional_chat_templates');
    for (const name of existsSync(others) ? readdirSync(others) : []) {
      if (name.endsWith('.jinja')) {
        sources[basename(name, '.jinja')] = await readText(join(others, name));
      }
    }
    return new ChatTemplate(sources, tokens, ownFile);
  }
  const jsonFile = join(folder, 'chat_template.json');
  const json = existsSync(jsonFile) ? await readJson(jsonFile) : undefined;
  const [file, holder] =
    isObject(json) && json.chat_template ? [jsonFile, json] : [configFile, config];
  const sources = templatesOf(holder.chat_template, file);
  return sources === undefined ? undefined : new ChatTemplate(sources, tokens, file);
}

/**
 * The chat template of a GGUF file.
 *
 * @param metadata as `mx.loadGguf` gives them
 * @param source what messages call the file
 * @returns nothing where there is none, as for base models
 * @throws CheckpointError when it is not a template
 */
export function ggufChatTemplate(
  metadata: GgufMetadata,
  source = 'The GGUF file',
): ChatTemplate | undefined {
  const sources = ggufChatTemplateSources(metadata, source);
  if (!sources) return undefined;
  const list = metadata.get('tokenizer.ggml.tokens');
  const tokens: Record<string, string> = {};
  for (const [name, key] of [
    ['bos_token', 'bos_token_id'],
    ['eos_token', 'eos_token_id'],
    ['unk_token', 'unknown_token_id'],
    ['pad_token', 'padding_token_id'],
  ]) {
    const token: unknown = Array.isArray(list)
      ? list[metadata.get(`tokenizer.ggml.${key}`) as number]
      : undefined;
    if (typeof token === 'string') tokens[name] = token;
  }
  return new ChatTemplate(sources, tokens, source);
}

/** By their names; the main one is called default. */
export function ggufChatTemplateSources(
  metadata: GgufMetadata,
  source: string,
): Record<string, string> | undefined {
  const KEY = 'tokenizer.chat_template';
  const named = [...metadata].flatMap(([key, value]) =>
    key.startsWith(`${KEY}.`) ? [{ name: key.slice(KEY.length + 1), template: value }] : [],
  );
  const main = metadata.get(KEY);
  const all = main === undefined ? named : [{ name: 'default', template: main }, ...named];
  return all.length === 0 ? undefined : templatesOf(all, source);
}

/** One template, or a list of named ones. */
function templatesOf(value: unknown, source: string): Record<string, string> | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value === 'string') return { default: value };
  const isNamed = (entry: unknown): entry is { name: string; template: string } =>
    isObject(entry) && typeof entry.name === 'string' && typeof entry.template === 'string';
  if (Array.isArray(value) && value.length > 0 && value.every(isNamed)) {
    return Object.fromEntries(value.map(({ name, template }) => [name, template]));
  }
  throw new CheckpointError(
    `${source}: chat_template must be a text, or a list of { name, template }, not ${quoted(value)}.`,
  );
}

/** `bos_token` and its like: texts, or objects with one. */
function tokensOf(config: Readonly<Record<string, unknown>>): TemplateTokens {
  const tokens: Record<string, string> = {};
  for (const [name, value] of Object.entries(config)) {
    if (!name.endsWith('_token') || name.startsWith('add_')) continue;
    const content = isObject(value) ? value.content : value;
    if (typeof content === 'string') tokens[name] = content;
  }
  return tokens;
}

async function readText(file: string): Promise<string> {
  return new TextDecoder().decode(await readBytes(file));
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
