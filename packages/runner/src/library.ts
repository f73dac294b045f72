/**
 * What a runner's library needs, as its command line does. Nothing here draws in the framework of
 * command lines: programs that import or bundle a runner have no use for it.
 */
export { checkOptions } from '@mlx-runners/mlx-core/check-options';
export {
  languageModelLoadSchema,
  precisions,
  type LanguageModelLoadOptions,
} from './language-model-schema.js';
export { loadOptionsSchema, type LoadOptions } from './load-options.js';
export * as schemas from './option-schemas.js';
export { parseRunnerManifest, type RunnerManifest } from './runner-json.js';
