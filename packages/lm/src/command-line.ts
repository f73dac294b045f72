/** What command lines of language models share; programs that only use models have no need of it. */
export { commonLength } from './common-length.js';
export { withDecoderExportOptions } from './command-line/decoder-export-options.js';
export {
  decoderSubject,
  randomDecoderSubject,
  sessionOptions,
  type DecoderSubjectAbout,
  type DecoderSubjectOptions,
} from './command-line/export-subject.js';
export { checkGenerationOptions, generateOptions } from './command-line/generate-options.js';
export { languageModelGolden } from './command-line/golden.js';
export { printText, resultJson } from './command-line/print-text.js';
export { rate, timing } from './command-line/timing.js';
