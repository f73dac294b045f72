/** Checkpoints as Hugging Face and mlx-lm write them, whatever file they came from. */
import { CheckpointError, mx, type MxArray } from '@mlx-runners/mlx-core';
import type { DecoderCheckpoint } from './checkpoint.js';
import { ropeDivisors, type RopeParameters } from './rope.js';

type Config = Readonly<Record<string, unknown>>;

const architectures: Readonly<Record<string, string>> = {
  llama: 'LlamaForCausalLM',
  mistral: 'MistralForCausalLM',
  qwen2: 'Qwen2ForCausalLM',
  qwen3: 'Qwen3ForCausalLM',
  gemma3_text: 'Gemma3ForCausalLM',
};

/**
 * The same model with rotations of halves, norms as the family has them, and a config.json whose rotations old
 * readers know, too. The tensors of the checkpoint are not to be used afterwards.
 *
 * @throws CheckpointError for a GGUF file's rotation that no rule of config.json gives
 */
export function huggingFaceForm(checkpoint: DecoderCheckpoint): DecoderCheckpoint {
  const { source, tensors, metadata } = checkpoint;
  const { rope_traditional: turned, ...config } = checkpoint.config as Config;
  const lacksOne = metadata !== undefined && config.model_type === 'gemma3_text';
  const heads: Readonly<Record<string, unknown>> = {
    q_proj: config.num_attention_heads,
    k_proj: config.num_key_value_heads ?? config.num_attention_heads,
  };
  const converted = new Map<string, MxArray>();
  for (const [name, tensor] of tensors) {
    const [, part] = /\.(q_proj|k_proj)\.\w+$/.exec(name) ?? [];
    if (turned === true && part !== undefined) {
      converted.set(name, halvesTogether(tensor, heads[part] as number));
    } else if (lacksOne && name.endsWith('norm.weight')) {
      converted.set(
        name,
        mx.tidy(() => tensor.subtract(1)),
      );
    } else converted.set(name, tensor);
  }
  const architecture = architectures[config.model_type as string];
  return {
    ...checkpoint,
    config: {
      ...(architecture === undefined ? {} : { architectures: [architecture] }),
      ...config,
      ...ropeFieldsOf(config, source),
    },
    tensors: converted,
  };
}

/** Rows of each head from [D/2, 2] to [2, D/2]; packed rows are moved as they are. */
function halvesTogether(tensor: MxArray, heads: number): MxArray {
  const rows = tensor.shape[0];
  const size = rows / heads;
  const order = Int32Array.from({ length: rows }, (_, row) => {
    const [head, i] = [Math.floor(row / size), row % size];
    return head * size + (i < size / 2 ? 2 * i : 2 * i - size + 1);
  });
  return mx.tidy(() => tensor.take(mx.array(order), 0));
}

/** `rope_theta` and `rope_scaling`, which mlx-lm reads, of newer fields. */
function ropeFieldsOf(config: Config, source: string): Config {
  const parameters = config.rope_parameters as Config | null | undefined;
  if (!parameters) return {};
  if (parameters.rope_type === 'divided') {
    const { rope_theta } = config as { rope_theta: number };
    const scaling = llama3Rule(parameters.divisors as number[], rope_theta, source);
    return { rope_parameters: undefined, rope_scaling: scaling };
  }
  const full = (parameters.full_attention ?? parameters) as Config;
  const sliding = parameters.sliding_attention as Config | undefined;
  const { rope_theta, ...rule } = full;
  const isPlain = rule.rope_type === undefined || rule.rope_type === 'default';
  return {
    rope_theta: rope_theta ?? config.rope_theta,
    ...(isPlain ? {} : { rope_scaling: rule }),
    ...(sliding?.rope_theta === undefined ? {} : { rope_local_base_freq: sliding.rope_theta }),
  };
}

/** Of Llama 3.1 and later, whose converter to GGUF has put the rule into divisors. */
function llama3Rule(divisors: readonly number[], theta: number, source: string): Config {
  const rule = {
    rope_type: 'llama3' as const,
    factor: Math.max(...divisors),
    low_freq_factor: 1,
    high_freq_factor: 4,
    original_max_position_embeddings: 8192,
  };
  const parameters: RopeParameters = { ...rule, rope_theta: theta };
  const expected = ropeDivisors(2 * divisors.length, parameters);
  if (divisors.every((divisor, i) => Math.abs(divisor / expected[i] - 1) < 1e-4)) return rule;
  throw new CheckpointError(`${source} has rope_freqs that the rule of Llama 3 does not give.`);
}
