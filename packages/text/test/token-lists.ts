import { readFileSync } from 'node:fs';

/** Vocabularies as flat lists, with reference results (fixtures/make_token_lists.py). */
export const tokenLists = JSON.parse(
  readFileSync(new URL('./fixtures/token-lists.generated.json', import.meta.url), 'utf8'),
) as {
  texts: string[];
  byteLevel: {
    tokens: string[];
    types: number[];
    merges: string[];
    /** By `tokenizer.ggml.pre`; one list of ids for each of `texts`. */
    ids: Record<string, number[][]>;
  };
  sentencePiece: {
    /** A tokenizer.model, base64. */
    model: string;
    /** The same as llama2.c's tokenizer.bin, with the short and the long header. */
    bins: string[];
    tokens: string[];
    scores: number[];
    types: number[];
    texts: string[];
    ids: number[][];
    decoded: string[];
  };
};

/** Metadata of a GGUF file with the byte-level vocabulary. */
export function byteLevelMetadata(pre: string): Map<string, unknown> {
  const { tokens, types, merges } = tokenLists.byteLevel;
  return new Map<string, unknown>([
    ['general.architecture', 'llama'],
    ['tokenizer.ggml.model', 'gpt2'],
    ['tokenizer.ggml.pre', pre],
    ['tokenizer.ggml.tokens', tokens],
    ['tokenizer.ggml.token_type', Int32Array.from(types)],
    ['tokenizer.ggml.merges', merges],
    ['tokenizer.ggml.bos_token_id', 0],
    ['tokenizer.ggml.eos_token_id', 1],
  ]);
}

/** Metadata of a GGUF file with the SentencePiece vocabulary. */
export function sentencePieceMetadata(): Map<string, unknown> {
  const { tokens, types, scores } = tokenLists.sentencePiece;
  return new Map<string, unknown>([
    ['general.architecture', 'llama'],
    ['tokenizer.ggml.model', 'llama'],
    ['tokenizer.ggml.pre', 'default'],
    ['tokenizer.ggml.tokens', tokens],
    ['tokenizer.ggml.token_type', Int32Array.from(types)],
    ['tokenizer.ggml.scores', Float32Array.from(scores)],
  ]);
}
