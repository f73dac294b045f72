/**
 * Qwen 3 (Yang et al. 2025): a Llama whose queries and keys are normed head by head before they are rotated.
 * Heads may be wider than the model's width divided by their number.
 */
import { Decoder } from './decoder.js';
import { LlamaLayer, llamaSizes } from './llama.js';
import { Rope } from './rope.js';
import { SelfAttention } from './self-attention.js';

export class Qwen3 extends Decoder {
  /**
   * @param json a config.json
   * @throws CheckpointError naming the fields that are missing or wrong
   */
  constructor(json: unknown, source = 'config.json') {
    const sizes = llamaSizes(json, source);
    const rope = new Rope(sizes.rope, { size: sizes.headSize });
    const bias = sizes.attention_bias;
    const options = { biases: bias, outputBias: bias, headNormEps: sizes.rms_norm_eps };
    const layers = sizes.layouts.map(
      () => new LlamaLayer(sizes, new SelfAttention(sizes, rope, options)),
    );
    super(sizes, layers, sizes.layouts, [rope]);
  }
}
