export { byteLevelBytes } from './byte-level.js';
export { IncrementalDecoder, type DecodeOptions } from './incremental-decoder.js';
export { loadTokenizer, Tokenizer, type EncodeOptions } from './tokenizer.js';
