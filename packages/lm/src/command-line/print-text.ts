import type { LogOptions } from '@mlx-runners/runner';
import type { GeneratedText, TextStream } from '../generation.js';
import { timing } from './timing.js';

/** Text to stdout as it is written, or JSON at its end; timing to stderr. */
export async function printText(stream: TextStream, { json, quiet }: LogOptions): Promise<void> {
  if (!json) for await (const part of stream) process.stdout.write(part.text);
  const result = await stream.result();
  process.stdout.write(json ? `${JSON.stringify(resultJson(result))}\n` : '\n');
  if (!quiet) process.stderr.write(`${timing(result.usage)}\n`);
}

/** With the names of OpenAI's API. */
export function resultJson({ text, tokens, finish, usage }: GeneratedText): object {
  return {
    text,
    finish_reason: finish.reason,
    ...('stopString' in finish && { stop: finish.stopString }),
    tokens: tokens.map(({ id }) => id),
    ...(tokens.some(({ logprob }) => logprob !== undefined) && {
      logprobs: tokens.map(({ logprob }) => logprob),
    }),
    usage: {
      prompt_tokens: usage.promptTokens,
      cached_tokens: usage.cachedTokens,
      completion_tokens: usage.completionTokens,
      prefill_seconds: usage.prefillSeconds,
      decode_seconds: usage.decodeSeconds,
    },
  };
}
