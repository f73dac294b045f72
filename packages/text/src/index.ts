export { byteLevelBytes } from './byte-level.js';
export {
  ChatTemplate,
  type ChatMessage,
  type ChatTemplateOptions,
  type ContentPart,
  type TemplateTokens,
} from './chat-template.js';
export type { GgufMetadata } from './gguf-tokenizer.js';
export {
  ggufTokenizerFiles,
  pieceTokenizerFiles,
  type HuggingFaceFiles,
} from './hugging-face-files.js';
export { IncrementalDecoder, type DecodeOptions } from './incremental-decoder.js';
export { ggufChatTemplate, loadChatTemplate } from './load-chat-template.js';
export { loadTokenizer, tokenizerFile } from './load-tokenizer.js';
export type { SpecialTokens } from './special-tokens.js';
export { Tokenizer, type EncodeOptions } from './tokenizer.js';
