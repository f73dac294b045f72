/**
 * The parts of `@huggingface/tokenizers` that are used here, with their types: the package's own
 * declarations import without file extensions, so `module: nodenext` sees nothing in them.
 */

import * as library from '@huggingface/tokenizers';

export interface LibraryTokenizer {
  readonly model: {
    readonly tokens_to_ids: ReadonlyMap<string, number>;
    /** Of a BPE model: splits a word into tokens by its merges. */
    bpe?: (word: string) => string[];
  };
  encode(text: string, options: { add_special_tokens: boolean }): { ids: number[] };
  token_to_id(token: string): number | undefined;
  id_to_token(id: number): string | undefined;
}

interface Library {
  Tokenizer: new (tokenizerJson: object, tokenizerConfig: object) => LibraryTokenizer;
  ReplaceDecoder: new (config: object) => { decode_chain(tokens: string[]): string[] };
}

export const { Tokenizer: LibraryTokenizer, ReplaceDecoder } = library as unknown as Library;
