/** The feed-forward part of decoder layers (Shazeer 2020): down(activation(gate(x)) · up(x)). */
import type { MxArray } from '@mlx-runners/mlx-core';
import { Linear, Module, type LinearLayer } from '@mlx-runners/nn';

/** activation(gate) · up: `mx.swiglu`, `mx.geglu`. */
export type GatedActivation = (gate: MxArray, up: MxArray) => MxArray;

export interface GatedMlpSizes {
  hidden_size: number;
  intermediate_size: number;
}

export class GatedMlp extends Module {
  gate_proj: LinearLayer;
  up_proj: LinearLayer;
  down_proj: LinearLayer;
  readonly #activation: GatedActivation;

  constructor(
    { hidden_size: width, intermediate_size: ffn }: GatedMlpSizes,
    activation: GatedActivation,
    { bias = false }: { bias?: boolean } = {},
  ) {
    super();
    this.gate_proj = new Linear(width, ffn, { bias });
    this.up_proj = new Linear(width, ffn, { bias });
    this.down_proj = new Linear(ffn, width, { bias });
    this.#activation = activation;
  }

  /** x [..., d] → [..., d] */
  forward(x: MxArray): MxArray {
    const gated = this.#activation(this.gate_proj.forward(x), this.up_proj.forward(x));
    return this.down_proj.forward(gated);
  }
}
