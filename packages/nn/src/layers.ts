/** The plain layers, named and laid out as torch.nn's, except that convolutions are channels-last. */
import { mx, type MxArray } from '@mlx-runners/mlx-core';
import { Module, parameter } from './module.js';

/** y = x · weightᵀ + bias; weight is [outputs, inputs]. */
export class Linear extends Module {
  weight: MxArray;
  bias: MxArray | undefined;

  constructor(inputs: number, outputs: number, options: { bias?: boolean } = {}) {
    super();
    this.weight = parameter(outputs, inputs);
    if (options.bias ?? true) this.bias = parameter(outputs);
  }

  /** x [..., inputs] → [..., outputs] */
  forward(x: MxArray): MxArray {
    return mx.linear(x, this.weight, this.bias);
  }
}

/** A table of vectors; weight is [entries, size]. */
export class Embedding extends Module {
  weight: MxArray;

  constructor(entries: number, size: number) {
    super();
    this.weight = parameter(entries, size);
  }

  /** ids [...] (integers) → [..., size] */
  forward(ids: MxArray): MxArray {
    return this.weight.take(ids, 0);
  }

  /** The table as an output projection: x [..., size] → [..., entries]. */
  asLinear(x: MxArray): MxArray {
    return mx.linear(x, this.weight);
  }
}

/** Normalisation over the last axis, with weight and bias. */
export class LayerNorm extends Module {
  weight: MxArray;
  bias: MxArray;
  readonly eps: number;

  constructor(size: number, eps = 1e-5) {
    super();
    this.weight = parameter(size);
    this.bias = parameter(size);
    this.eps = eps;
  }

  forward(x: MxArray): MxArray {
    return mx.layerNorm(x, this.weight, this.bias, this.eps);
  }
}

/** x / √(mean(x²) + eps) · weight over the last axis (Zhang and Sennrich 2019), computed in float32. */
export class RmsNorm extends Module {
  weight: MxArray;
  readonly eps: number;

  constructor(size: number, eps = 1e-5) {
    super();
    this.weight = parameter(size);
    this.eps = eps;
  }

  forward(x: MxArray): MxArray {
    return mx.rmsNorm(x, this.weight, this.eps);
  }

  /** A residual connection and the norm that follows it: [x + added, forward(x + added)]. */
  forwardSum(x: MxArray, added: MxArray): [sum: MxArray, normed: MxArray] {
    const [sum, normed] = mx.addRmsNorm(added, x, this.weight, this.eps);
    return [sum, normed];
  }
}

export interface Conv1dOptions {
  stride?: number;
  padding?: number;
  dilation?: number;
  groups?: number;
}

/** Convolution over time; weight is [outputs, kernel, inputs / groups], as MLX has it. */
export class Conv1d extends Module {
  weight: MxArray;
  bias: MxArray;
  readonly options: Conv1dOptions;

  constructor(inputs: number, outputs: number, kernel: number, options: Conv1dOptions = {}) {
    super();
    this.weight = parameter(outputs, kernel, inputs / (options.groups ?? 1));
    this.bias = parameter(outputs);
    this.options = options;
  }

  /** x [batch, time, inputs] → [batch, time', outputs] */
  forward(x: MxArray): MxArray {
    const { stride, padding, dilation, groups } = this.options;
    return mx.conv1d(x, this.weight, stride, padding, dilation, groups).add(this.bias);
  }
}
