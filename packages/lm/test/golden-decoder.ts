/** The decoder of a golden, with its weights. */
import { mx, type MxArray } from '@mlx-runners/mlx-core';
import { familyOf, type Decoder } from '@mlx-runners/lm';
import { fixturePath } from '@mlx-runners/test-fixtures';

/** @returns `golden`: the golden's other tensors by name */
export function goldenDecoder(name: string): {
  decoder: Decoder;
  golden: (tensor: string) => MxArray;
} {
  const { tensors, metadata } = mx.loadSafetensors(fixturePath(`${name}.safetensors`));
  const config = JSON.parse(metadata.config) as unknown;
  const family = familyOf(config);
  const decoder = family.build(config);
  const weights = [...tensors].filter(([tensor]) => tensor.startsWith('w.'));
  decoder.load(
    family.sanitize(new Map(weights.map(([tensor, array]) => [tensor.slice(2), array]))),
  );
  return { decoder, golden: (tensor) => tensors.get(tensor)! };
}
