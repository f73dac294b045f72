import { readFileSync } from 'node:fs';

interface SmallTokenizer {
  name: string;
  size: number;
  tokenizer: { decoder: unknown; model: Record<string, unknown> } & Record<string, unknown>;
  cases: { text: string; ids: number[]; ids_special: number[] }[];
  decodes: { ids: number[]; decoded: string; decoded_skip: string }[];
}

/** Tokenizers of every supported kind, with reference results (fixtures/make_tokenizers.py). */
export const smallTokenizers = (
  JSON.parse(
    readFileSync(new URL('./fixtures/small-tokenizers.generated.json', import.meta.url), 'utf8'),
  ) as { tokenizers: SmallTokenizer[] }
).tokenizers;

export function smallTokenizer(name: string): SmallTokenizer {
  return smallTokenizers.find((tokenizer) => tokenizer.name === name)!;
}
