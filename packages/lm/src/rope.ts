/** Rotary position embedding (Su et al. 2021) as configurations describe it. */
import { CheckpointError, mx, quoted, type MxArray } from '@mlx-runners/mlx-core';
import { z } from 'zod';

const factor = z.number().positive();

/** What transformers 5 writes as `rope_parameters`, and earlier versions as `rope_scaling`. */
const parametersSchema = z.discriminatedUnion('rope_type', [
  z.object({ rope_type: z.literal('default'), rope_theta: factor }),
  z.object({ rope_type: z.literal('linear'), rope_theta: factor, factor }),
  z.object({
    rope_type: z.literal('llama3'),
    rope_theta: factor,
    factor,
    low_freq_factor: factor,
    high_freq_factor: factor,
    original_max_position_embeddings: factor,
  }),
  // GGUF's rope_freqs.weight, into which its converter has put the rule.
  z.object({
    rope_type: z.literal('divided'),
    rope_theta: factor,
    divisors: z.array(factor),
  }),
]);

export type RopeParameters = z.infer<typeof parametersSchema>;

/**
 * The parameters of a config.json, old or new.
 *
 * @throws CheckpointError for rules that are not known
 */
export function ropeParameters(
  { rope_parameters, rope_scaling, rope_theta = 10_000 }: RopeFields,
  source: string,
): RopeParameters {
  const given = rope_parameters ?? rope_scaling ?? {};
  const type = given.rope_type ?? given.type ?? 'default';
  const parsed = parametersSchema.safeParse({ rope_theta, ...given, rope_type: type });
  if (parsed.success) return parsed.data;
  throw new CheckpointError(
    `${source} has a rope of type ${quoted(type)} that can't be used: default, linear and llama3 are known.`,
  );
}

/** The fields of a config.json that `ropeParameters` reads. */
export const ropeFields = {
  rope_theta: factor.optional(),
  rope_parameters: z.record(z.string(), z.unknown()).nullish(),
  rope_scaling: z.record(z.string(), z.unknown()).nullish(),
};

type RopeFields = z.infer<z.ZodObject<typeof ropeFields>>;

/** The period of each pair of dimensions: what a position is divided by. */
function periods(size: number, parameters: RopeParameters): number[] | undefined {
  const { rope_theta: theta } = parameters;
  const base = Array.from({ length: size / 2 }, (_, i) => theta ** ((2 * i) / size));
  switch (parameters.rope_type) {
    case 'default':
    case 'linear':
      return undefined;
    case 'divided':
      return base.map((period, i) => period * parameters.divisors[i]);
    case 'llama3':
      return base.map((period) => llama3Period(period, parameters));
  }
}

/** How many times longer than plain ones the waves of a rule are, by pairs of dimensions. */
export function ropeDivisors(size: number, parameters: RopeParameters): number[] {
  const { rope_theta: theta } = parameters;
  const stretched = periods(size, parameters);
  return Array.from({ length: size / 2 }, (_, i) =>
    stretched ? stretched[i] / theta ** ((2 * i) / size) : 1,
  );
}

/** Long waves are stretched, short ones stay, those between are blended (Llama 3.1). */
function llama3Period(
  period: number,
  parameters: Extract<RopeParameters, { rope_type: 'llama3' }>,
): number {
  const { factor, low_freq_factor: low, high_freq_factor: high } = parameters;
  const turns = parameters.original_max_position_embeddings / (2 * Math.PI * period);
  if (turns < low) return period * factor;
  if (turns > high) return period;
  const kept = (turns - low) / (high - low);
  return 1 / ((1 - kept) / factor / period + kept / period);
}

export interface RopeOptions {
  /** Size of a head, all of which is turned. */
  size: number;
  /** Neighbours belong together, as in llama2.c and GGUF's Llamas, instead of halves. */
  traditional?: boolean;
}

export class Rope {
  readonly #size: number;
  readonly #traditional: boolean;
  readonly #theta: number;
  readonly #scale: number;
  readonly #periods: MxArray | undefined;

  constructor(parameters: RopeParameters, { size, traditional = false }: RopeOptions) {
    this.#size = size;
    this.#traditional = traditional;
    this.#theta = parameters.rope_theta;
    this.#scale = parameters.rope_type === 'linear' ? 1 / parameters.factor : 1;
    const own = periods(size, parameters);
    this.#periods = own && mx.keep(mx.array(Float32Array.from(own)));
  }

  /**
   * @param x [B, heads, T, size]
   * @param position of the first of the T tokens: a number, or int32 [B]
   */
  forward(x: MxArray, position: number | MxArray): MxArray {
    const base = this.#periods ? null : this.#theta;
    return mx.rope(x, this.#size, this.#traditional, base, this.#scale, position, this.#periods);
  }

  dispose(): void {
    this.#periods?.dispose();
  }
}
