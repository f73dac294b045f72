/** What a model's generation_config.json recommends for drawing tokens. */
import { z } from 'zod';
import type { SamplingOptions } from './sampling-options.js';

export type SamplingDefaults = Pick<
  SamplingOptions,
  'temperature' | 'topK' | 'topP' | 'minP' | 'repetitionPenalty'
>;

// What is damaged recommends nothing.
const number = z.number().positive().optional().catch(undefined);

const schema = z.object({
  do_sample: z.boolean().optional().catch(undefined),
  temperature: number,
  top_k: number,
  top_p: number,
  min_p: number,
  repetition_penalty: number,
});

/** @param config the parsed file, if there is one */
export function samplingDefaults(config: unknown = {}): SamplingDefaults {
  const { do_sample, temperature, top_k, top_p, min_p, repetition_penalty } =
    schema.safeParse(config).data ?? {};
  if (do_sample === false) return { temperature: 0 };
  return {
    temperature,
    topK: top_k,
    topP: top_p,
    minP: min_p,
    repetitionPenalty: repetition_penalty,
  };
}
