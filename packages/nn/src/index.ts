export { Module, parameter, type ModuleSlot, type ParameterSlot } from './module.js';
export { Conv1d, Embedding, LayerNorm, Linear, RmsNorm, type Conv1dOptions } from './layers.js';
export { attention, mergeHeads, splitHeads, type AttentionOptions } from './attention.js';
export { readCheckpoint, type Checkpoint, type CheckpointFormat } from './checkpoint.js';
export { readCTranslate2 } from './ctranslate2.js';
export { randomWeights } from './random-weights.js';
export { readPyTorch, type PyTorchValue } from './pytorch/pytorch.js';
export { fitted, readJsonFile } from './json-file.js';
export {
  BlockEmbedding,
  BlockLinear,
  packLayers,
  QuantizedEmbedding,
  QuantizedLinear,
  type BlockFormat,
  type EmbeddingLayer,
  type LinearLayer,
  type Packing,
  type Precision,
  type QuantizedFormat,
} from './quantized-layers.js';
