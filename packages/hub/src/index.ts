export { huggingFaceCache, mlxRunnersCache } from './environment.js';
export {
  findModel,
  resolveModel,
  type FindModelOptions,
  type ModelLocation,
} from './find-model.js';
export { cachedMirror } from './mirror-cache.js';
export {
  findModelSource,
  modelSourcesSchema,
  type Mirror,
  type MirrorPackage,
  type ModelSource,
  type ModelSources,
} from './model-sources.js';
export type { DownloadProgress, TransferOptions } from './progress.js';
