import type { Usage } from '../generation.js';

/** `38 tokens of prompt in 0.06 s (633/s), 12 of text in 0.15 s (80.0/s)` */
export function timing(usage: Usage): string {
  const { promptTokens, cachedTokens, completionTokens, prefillSeconds, decodeSeconds } = usage;
  const known = cachedTokens > 0 ? `, ${cachedTokens} of them known` : '';
  const read = rate(promptTokens - cachedTokens, prefillSeconds);
  const written = rate(completionTokens - 1, decodeSeconds);
  return (
    `${promptTokens} tokens of prompt${known} in ${prefillSeconds.toFixed(2)} s${read}, ` +
    `${completionTokens} of text in ${decodeSeconds.toFixed(2)} s${written}`
  );
}

/** Tokens a second, where there are enough of both to tell. */
export function rate(tokens: number, seconds: number): string {
  if (tokens <= 0 || seconds <= 0) return '';
  const perSecond = tokens / seconds;
  return ` (${perSecond < 100 ? perSecond.toPrecision(3) : perSecond.toFixed(0)}/s)`;
}
