/** Layers whose matrices stay as the checkpoint packs them: in MLX's formats, or in GGUF's blocks. */
import { CheckpointError, mx, printable, type MxArray } from '@mlx-runners/mlx-core';
import { Embedding, Linear } from './layers.js';
import { Module, packedParameter, parameter } from './module.js';

/** 'fast' rounds activations to 8 bits before a packed matrix is multiplied; see mlx-core's README. */
export type Precision = 'exact' | 'fast';

/** How `mx.quantize` packed a matrix. */
export interface QuantizedFormat {
  mode: 'affine' | 'mxfp4' | 'nvfp4' | 'mxfp8';
  bits: number;
  groupSize: number;
}

/** A matrix of `shape` in blocks of a GGUF format (`Q4_K` …), `rowBytes` bytes a row. */
export interface BlockFormat {
  format: string;
  shape: readonly number[];
  rowBytes: number;
}

export type Packing = QuantizedFormat | BlockFormat;

/** A linear layer, packed or not. */
export type LinearLayer = Linear | QuantizedLinear | BlockLinear;
/** A table of vectors, packed or not. */
export type EmbeddingLayer = Embedding | QuantizedEmbedding | BlockEmbedding;

/** What `mx.quantize` gives for a matrix [rows, columns]. */
class QuantizedMatrix extends Module {
  weight: MxArray;
  scales: MxArray;
  biases: MxArray | undefined;
  readonly format: QuantizedFormat;

  constructor(rows: number, columns: number, format: QuantizedFormat) {
    super();
    const { mode, bits, groupSize } = format;
    const groups = columns / groupSize;
    this.format = format;
    this.weight = packedParameter('uint32', rows, (columns * bits) / 32);
    this.scales =
      mode === 'affine' ? parameter(rows, groups) : packedParameter('uint8', rows, groups);
    if (mode === 'affine') this.biases = parameter(rows, groups);
  }

  /** x [..., columns] → [..., rows] */
  protected multiply(x: MxArray, bias: MxArray | undefined, precision: Precision): MxArray {
    const { mode, bits, groupSize } = this.format;
    const { weight, scales, biases } = this;
    return mx.quantizedLinear(x, weight, scales, biases, bias, groupSize, bits, mode, precision);
  }
}

/** `Linear` with a matrix that `mx.quantize` packed; fields are named as in MLX's checkpoints. */
export class QuantizedLinear extends QuantizedMatrix {
  bias: MxArray | undefined;
  readonly precision: Precision;

  constructor({ weight, bias }: Linear, format: QuantizedFormat, precision: Precision) {
    super(weight.shape[0], weight.shape[1], format);
    this.bias = bias;
    this.precision = precision;
  }

  /** x [..., inputs] → [..., outputs] */
  forward(x: MxArray): MxArray {
    return this.multiply(x, this.bias, this.precision);
  }
}

/** `Embedding` with a table that `mx.quantize` packed. */
export class QuantizedEmbedding extends QuantizedMatrix {
  readonly precision: Precision;

  constructor({ weight }: Embedding, format: QuantizedFormat, precision: Precision) {
    super(weight.shape[0], weight.shape[1], format);
    this.precision = precision;
  }

  /** ids [...] (integers) → [..., size], float32 */
  forward(ids: MxArray): MxArray {
    const { mode, bits, groupSize } = this.format;
    return mx.quantizedTake(
      this.weight,
      this.scales,
      this.biases ?? null,
      ids,
      groupSize,
      bits,
      mode,
    );
  }

  /** The table as an output projection: x [..., size] → [..., entries]. */
  asLinear(x: MxArray): MxArray {
    return this.multiply(x, undefined, this.precision);
  }
}

/** `Linear` with a matrix in GGUF's blocks. */
export class BlockLinear extends Module {
  weight: MxArray;
  bias: MxArray | undefined;
  readonly format: string;
  readonly precision: Precision;

  constructor({ weight, bias }: Linear, { format, rowBytes }: BlockFormat, precision: Precision) {
    super();
    this.weight = packedParameter('uint8', weight.shape[0], rowBytes);
    this.bias = bias;
    this.format = format;
    this.precision = precision;
  }

  /** x [..., inputs] → [..., outputs], float32 */
  forward(x: MxArray): MxArray {
    return mx.blockLinear(x, this.weight, this.format, this.bias, this.precision);
  }
}

/** `Embedding` with a table in GGUF's blocks. */
export class BlockEmbedding extends Module {
  weight: MxArray;
  readonly format: string;
  readonly precision: Precision;

  constructor({ weight }: Embedding, { format, rowBytes }: BlockFormat, precision: Precision) {
    super();
    this.weight = packedParameter('uint8', weight.shape[0], rowBytes);
    this.format = format;
    this.precision = precision;
  }

  /** ids [...] (integers) → [..., size], float32 */
  forward(ids: MxArray): MxArray {
    return mx.blockTake(this.weight, ids, this.format);
  }

  /** The table as an output projection: x [..., size] → [..., entries]. */
  asLinear(x: MxArray): MxArray {
    return mx.blockLinear(x, this.weight, this.format, undefined, this.precision);
  }
}

function packed(layer: Linear | Embedding, packing: Packing, precision: Precision): Module {
  if (layer instanceof Linear) {
    return 'mode' in packing
      ? new QuantizedLinear(layer, packing, precision)
      : new BlockLinear(layer, packing, precision);
  }
  return 'mode' in packing
    ? new QuantizedEmbedding(layer, packing, precision)
    : new BlockEmbedding(layer, packing, precision);
}

/** @throws CheckpointError when a matrix can't be packed like that */
function checkPacking(name: string, [rows, columns]: readonly number[], packing: Packing): void {
  if ('mode' in packing) {
    if (columns % packing.groupSize === 0 && (columns * packing.bits) % 32 === 0) return;
    const { bits, groupSize } = packing;
    throw new CheckpointError(
      `${printable(name, 120)} has rows of ${columns}, which ${bits} bits in groups of ${groupSize} do not divide.`,
    );
  }
  if (packing.shape.join() === `${rows},${columns}`) return;
  throw new CheckpointError(
    `${printable(name, 120)} is [${packing.shape.join(', ')}] instead of [${rows}, ${columns}].`,
  );
}

/**
 * Puts packed layers in the place of those linear layers and embeddings whose matrices the checkpoint
 * packs; to be called before `load`.
 *
 * @param packingOf what the checkpoint says of the layer of this name; undefined for plain numbers
 * @throws CheckpointError for packings that don't fit a layer
 */
export function packLayers(
  model: Module,
  packingOf: (name: string) => Packing | undefined,
  precision: Precision = 'exact',
): void {
  for (const { name, module, owner, key } of model.moduleSlots()) {
    if (!(module instanceof Linear || module instanceof Embedding)) continue;
    const packing = packingOf(name);
    if (!packing) continue;
    checkPacking(name, module.weight.shape, packing);
    owner[key] = packed(module, packing, precision);
    module.weight.dispose();
  }
}
