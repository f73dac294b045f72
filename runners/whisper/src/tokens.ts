/** Whisper's special tokens, and the sets of tokens that are kept out of transcripts. */
import { CheckpointError } from '@mlx-runners/mlx-core';
import type { Tokenizer } from '@mlx-runners/text';

export type Task = 'transcribe' | 'translate';

export interface SpecialTokens {
  eot: number;
  sot: number;
  translate: number;
  transcribe: number;
  sotLm: number;
  sotPrev: number;
  noSpeech: number;
  noTimestamps: number;
  /** `<|0.00|>`; one id per 20 ms follows. */
  timestampBegin: number;
  /** Language code → id; empty for English-only models. */
  languages: ReadonlyMap<string, number>;
}

/** One timestamp token to the next, in seconds. */
export const timePrecision = 0.02;

/**
 * Looks the special tokens up by name.
 *
 * @throws CheckpointError when the tokenizer is not Whisper's
 */
export function specialTokens(tokenizer: Tokenizer): SpecialTokens {
  const id = (...names: string[]): number => {
    for (const name of names) {
      const found = tokenizer.tokenToId(`<|${name}|>`);
      if (found !== undefined) return found;
    }
    throw new CheckpointError(`The tokenizer is not Whisper's: it has no <|${names[0]}|>.`);
  };
  const sot = id('startoftranscript');
  const translate = id('translate');
  const languages = new Map<string, number>();
  for (let token = sot + 1; token < translate; token++) {
    const name = tokenizer.idToToken(token);
    // Nothing but languages lies between; a file that has `translate` far away is no Whisper's.
    if (name === undefined) break;
    const code = /^<\|([a-z]{2,3})\|>$/.exec(name)?.[1];
    if (code) languages.set(code, token);
  }
  const noTimestamps = id('notimestamps');
  const multilingual = tokenizer.tokenToId('<|endoftext|>') === 50257;
  return {
    eot: id('endoftext'),
    sot,
    translate,
    transcribe: id('transcribe'),
    sotLm: id('startoflm'),
    sotPrev: id('startofprev'),
    noSpeech: id('nospeech', 'nocaptions'),
    noTimestamps,
    timestampBegin: noTimestamps + 1,
    languages: multilingual ? languages : new Map(),
  };
}

const symbols = [
  ...Array.from('"#()*+/:;<=>@[\\]^_`{|}~「」『』'),
  ...'<< >> <<< >>> -- --- -( -[ (\' (" (( )) ((( ))) [[ ]] {{ }} ♪♪ ♪♪♪'.split(' '),
];
const musicalSymbols = Array.from('♩♪♫♬♭♮♯');

/**
 * Tokens of symbols that are never spoken: brackets, quotes, maths and music signs that are one
 * token, and what begins speaker tags. Follows `non_speech_tokens` in openai/whisper
 * `whisper/tokenizer.py`.
 */
function nonSpeechTokens(tokenizer: Tokenizer): number[] {
  // Inside words hyphens and apostrophes stay; at the start they mark annotations.
  const found = new Set([tokenizer.encode(' -')[0], tokenizer.encode(" '")[0]]);
  for (const symbol of [...symbols, ...musicalSymbols]) {
    for (const tokens of [tokenizer.encode(symbol), tokenizer.encode(` ${symbol}`)]) {
      if (tokens.length === 1 || musicalSymbols.includes(symbol)) found.add(tokens[0]);
    }
  }
  return [...found].sort((a, b) => a - b);
}

/** What is never sampled: non-speech tokens and the special ones that only prompts hold. */
export function suppressedTokens(tokenizer: Tokenizer, special: SpecialTokens): number[] {
  const { transcribe, translate, sot, sotPrev, sotLm, noSpeech } = special;
  return [...nonSpeechTokens(tokenizer), transcribe, translate, sot, sotPrev, sotLm, noSpeech];
}

/** A text of tokens; timestamps and other special tokens give none. */
export function textOf(tokenizer: Tokenizer, tokens: readonly number[], eot: number): string {
  return tokenizer.decode(tokens.filter((token) => token < eot));
}
