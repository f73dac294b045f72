/** Everything that is used as `mx.…`: creation, ops, evaluation, memory, files. */
// Named here, this arange comes before that of the ops.
export { arange, array, fromBytes, type NestedNumbers } from './creation.js';
export * from './ops.generated.js';
export {
  buildInfo,
  device,
  eval,
  evalSync,
  evaluations,
  setDevice,
  setThreads,
  type Device,
} from './evaluation.js';
export { clearCache, memory, resetPeakMemory, setMemoryLimit } from './memory.js';
export { mapFile } from './mapped-file.js';
export { loadGguf, type Gguf, type GgufTensor } from './gguf.js';
export { loadSafetensors, saveSafetensors, type Safetensors } from './safetensors.js';
export { keep, tidy } from './scope.js';
