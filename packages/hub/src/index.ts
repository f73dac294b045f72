export { listModels, type CachedModel, type ListOptions } from './cached-models.js';
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
  modelId,
  modelOrigin,
  modelSourcesSchema,
  type Mirror,
  type MirrorPackage,
  type ModelSource,
  type ModelSources,
} from './model-sources.js';
export type { DownloadProgress, TransferOptions } from './progress.js';
export { removeModel, type RemoveOptions } from './remove-model.js';
export { verifyModel, type VerifiedModel } from './verify-model.js';
