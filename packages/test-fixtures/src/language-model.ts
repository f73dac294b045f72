/** A folder of a language model, with a golden's weights and a tokenizer of 64 tokens that know digits. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { goldenCheckpoint } from './golden-checkpoint.js';

const digits = Array.from({ length: 10 }, (_, digit) => String(digit));
const words = ['<s>', '</s>', ...digits, 'alpha', 'Ġbeta', 'Ġgam', 'ma', 'Ġdelta', 'Ġ'];
const tokens = Array.from({ length: 64 }, (_, id) => words[id] ?? `<${id}>`);

/** Written by turns as `8text9`, an answer ends with 9. */
export const tinyChatTemplate =
  "{% for message in messages %}{{ {'system': '6', 'user': '7', 'assistant': '8'}[message.role] }}" +
  "{{ message.content }}9{% endfor %}{{ '8' if add_generation_prompt }}";

export interface TinyLanguageModelOptions {
  golden?: string;
  /** Fields of config.json beside the golden's. */
  config?: Record<string, unknown>;
  template?: string;
  generationConfig?: Record<string, unknown>;
}

/** @returns the folder */
export function writeTinyLanguageModel(
  folder: string,
  {
    golden = 'tiny_llama_tied',
    config = {},
    template,
    generationConfig,
  }: TinyLanguageModelOptions = {},
): string {
  const { config: goldenConfig, safetensors } = goldenCheckpoint(golden);
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'model.safetensors'), safetensors);
  const write = (name: string, json: object): void =>
    writeFileSync(join(folder, name), JSON.stringify(json));
  write('config.json', { ...goldenConfig, eos_token_id: 1, ...config });
  write('tokenizer.json', {
    added_tokens: [0, 1].map((id) => ({ id, content: tokens[id], special: true })),
    pre_tokenizer: { type: 'ByteLevel', add_prefix_space: false },
    decoder: { type: 'ByteLevel' },
    model: {
      type: 'BPE',
      vocab: Object.fromEntries(tokens.map((token, id) => [token, id])),
      merges: [],
    },
  });
  write('tokenizer_config.json', { bos_token: '<s>', eos_token: '</s>', chat_template: template });
  if (generationConfig) write('generation_config.json', generationConfig);
  return folder;
}
