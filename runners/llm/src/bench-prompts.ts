import { mx } from '@mlx-runners/mlx-core';
import { Tokenizer } from '@mlx-runners/text';
import type { BenchPrompts } from './bench-contestants.js';

// Whose continuation every model is sure of, so that rounding parts texts late.
const SHORT = 'red, green, blue, red, green, blue, red, green, blue, red,';
const LONG =
  'A lighthouse stands on the northern cape. Its keeper writes down the wind, the ships that pass and the hour ' +
  'at which the lamp was lit. In winter the sea breaks over the rocks, and for weeks no boat can land. ';

const LONG_TOKENS = 512;
const WRITTEN_TOKENS = 128;

/** Of a model in a GGUF file. Both begin differently, so that nothing of one is known from the other. */
export function benchPrompts(gguf: string): BenchPrompts {
  const tokenizer = Tokenizer.fromGguf(mx.loadGguf(gguf).metadata, gguf);
  const encode = (text: string) => tokenizer.encode(text, { addSpecialTokens: true });
  return {
    short: encode(SHORT),
    long: encode(LONG.repeat(LONG_TOKENS / 32)).slice(0, LONG_TOKENS),
    tokens: WRITTEN_TOKENS,
  };
}
