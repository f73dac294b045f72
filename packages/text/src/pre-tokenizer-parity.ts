/**
 * Rewrites the pre-tokenizer part of a tokenizer.json so that the JavaScript library splits text
 * exactly as the Rust one does. Every rewrite is plain tokenizer.json again: a `Split`, whose regular
 * expression the library translates from Oniguruma with its Unicode classes intact.
 */

/** A component of a tokenizer.json: an object with a `type` and the options of that type. */
export interface Component {
  type: string;
  [option: string]: unknown;
}

/** GPT-2's split (encoder.py), as Rust's ByteLevel writes it. */
const GPT2_SPLIT =
  "'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

const ANY = '(?:.|\\n)';

/**
 * Four kinds of differences are levelled out:
 * - `ByteLevel` uses JavaScript's `\s`, which holds U+FEFF and lacks U+0085;
 * - so do `WhitespaceSplit` and `Whitespace`, the latter with ASCII's `\w`;
 * - `Digits` uses ASCII's `\d`, where Rust's `is_numeric` takes all of Unicode's N (`½`, `٣`, `Ⅷ`);
 * - `Split` ignores the behaviours that merge a match with what stands beside it.
 */
export function withRustSplitting(preTokenizer: Component): Component {
  switch (preTokenizer.type) {
    case 'Sequence':
      return {
        ...preTokenizer,
        pretokenizers: (preTokenizer.pretokenizers as Component[]).map(withRustSplitting),
      };
    case 'ByteLevel':
      return preTokenizer.use_regex === false ? preTokenizer : splitThenBytes(preTokenizer);
    case 'Digits':
      return isolate(preTokenizer.individual_digits ? '\\p{N}' : '\\p{N}+');
    case 'WhitespaceSplit':
      return { ...isolate('\\s+'), behavior: 'Removed' };
    case 'Whitespace':
      return { ...isolate('\\w+|[^\\w\\s]+'), behavior: 'Removed', invert: true };
    case 'Split':
      return preTokenizer.invert ? preTokenizer : withMergedMatches(preTokenizer);
    default:
      return preTokenizer;
  }
}

function isolate(regex: string): Component {
  return { type: 'Split', pattern: { Regex: regex }, behavior: 'Isolated', invert: false };
}

function splitThenBytes(byteLevel: Component): Component {
  const bytes = { ...byteLevel, use_regex: false, add_prefix_space: false };
  // The prefix belongs to the whole text, so it has to come before the split. With a negative look
  // ahead, V8 would also find the start of the text inside of surrogate pairs.
  const prefix = { type: 'Replace', pattern: { Regex: '\\A(?=[^ ])' }, content: ' ' };
  const steps = [isolate(GPT2_SPLIT), bytes];
  return {
    type: 'Sequence',
    pretokenizers: byteLevel.add_prefix_space ? [prefix, ...steps] : steps,
  };
}

/** Says "match merged with its neighbour" as one pattern whose matches are the wanted pieces. */
function withMergedMatches(split: Component): Component {
  const { Regex, String: literal } = split.pattern as { Regex?: string; String?: string };
  const match = `(?:${Regex ?? escapeRegex(literal ?? '')})`;
  const between = `(?:(?!${match})${ANY})+`;
  switch (split.behavior) {
    case 'MergedWithPrevious':
      return isolate(`${between}${match}?|${match}`);
    case 'MergedWithNext':
      return isolate(`${match}${between}|${match}|${between}`);
    case 'Contiguous':
      return isolate(`${match}+|${between}`);
    default:
      return split;
  }
}

function escapeRegex(literal: string): string {
  return literal.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
}
