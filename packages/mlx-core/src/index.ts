export * as mx from './mx.js';
export { MxArray } from './array.js';
import './array-methods.generated.js';
export { type Operand } from './call.js';
export { type Dtype, type TypedArray } from './dtype.js';
export * from './errors.js';
export { type Device } from './evaluation.js';
export {
  CellCache,
  kvStorages,
  SequenceCache,
  type CellCacheOptions,
  type KvLayer,
  type KvStorage,
  type SequenceCacheOptions,
} from './kv-cache.js';
export { MappedFile } from './mapped-file.js';
export type { BuildInfo, EvaluationCounts, GgufNumbers, GgufValue, MemoryUsage } from './native.js';
export { checkRegularFile } from './regular-file.js';
