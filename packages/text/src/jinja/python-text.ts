/** Methods of Python's texts where JavaScript's differ. */

import { TemplateError, tuple, type Value } from './values.js';

/** Inside of a character class: what Python's `str.isspace` and `\s` take for space. */
export const PYTHON_SPACE =
  '\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000';

/** `str.strip` and its sides; `characters` are those to take away, white space without. */
export function strip(
  value: string,
  characters: string | null,
  sides: 'both' | 'left' | 'right',
): string {
  const set = characters === null ? undefined : new Set(characters);
  const space = new RegExp(`[${PYTHON_SPACE}]`);
  const isStripped = (character: string) => (set ? set.has(character) : space.test(character));
  const all = Array.from(value);
  let start = 0;
  let end = all.length;
  if (sides !== 'right') while (start < end && isStripped(all[start])) start++;
  if (sides !== 'left') while (end > start && isStripped(all[end - 1])) end--;
  return all.slice(start, end).join('');
}

/** `str.split` and `str.rsplit`, from the right. */
export function split(
  value: string,
  separator: string | null,
  most: number,
  fromRight = false,
): string[] {
  const limit = most < 0 ? Infinity : most;
  if (separator === '') throw new TemplateError('empty separator');
  if (separator !== null) {
    const parts = value.split(separator);
    if (parts.length - 1 <= limit) return parts;
    return fromRight
      ? [parts.slice(0, parts.length - limit).join(separator), ...parts.slice(parts.length - limit)]
      : [...parts.slice(0, limit), parts.slice(limit).join(separator)];
  }
  const isLimited = limit < Infinity;
  return fromRight && isLimited ? splitAtSpaceFromRight(value, limit) : splitAtSpace(value, limit);
}

function splitAtSpace(value: string, limit: number): string[] {
  const parts: string[] = [];
  let rest = strip(value, null, 'left');
  while (rest !== '') {
    const gap = parts.length < limit ? new RegExp(`[${PYTHON_SPACE}]+`).exec(rest) : null;
    parts.push(gap ? rest.slice(0, gap.index) : rest);
    rest = gap ? rest.slice(gap.index + gap[0].length) : '';
  }
  return parts;
}

function splitAtSpaceFromRight(value: string, limit: number): string[] {
  const parts: string[] = [];
  let rest = strip(value, null, 'right');
  while (rest !== '') {
    const gap = parts.length < limit ? new RegExp(`.*[${PYTHON_SPACE}]`, 's').exec(rest) : null;
    parts.unshift(gap ? rest.slice(gap[0].length) : rest);
    rest = gap ? strip(gap[0], null, 'right') : '';
  }
  return parts;
}

/** What `str.splitlines` takes for the end of a line, besides `\r\n`. */
const LINE_ENDS = '\\n\\r\\v\\f\\x1c-\\x1e\\x85\\u2028\\u2029';

export function splitLines(value: string, keepEnds: boolean): string[] {
  const line = new RegExp(`[^${LINE_ENDS}]*(?:\\r\\n|[${LINE_ENDS}]|$)`, 'g');
  const lines: string[] = value.match(line) ?? [];
  if (lines.at(-1) === '') lines.pop();
  return keepEnds ? lines : lines.map((text) => text.replace(new RegExp(`[${LINE_ENDS}]+$`), ''));
}

/** `str.replace`, at most so many times; `Infinity` for all. An empty `from` stands between all characters. */
export function replace(value: string, from: string, to: string, most: number): string {
  let result = '';
  let rest = value;
  for (let count = 0; count < most; count++) {
    const at = rest.indexOf(from);
    if (at < 0) break;
    result += rest.slice(0, at) + to;
    rest = rest.slice(at + from.length);
    if (from !== '') continue;
    const [first] = rest;
    if (first === undefined) break;
    result += first;
    rest = rest.slice(first.length);
  }
  return result + rest;
}

export function partition(value: string, separator: string, fromRight = false): Value {
  const at = fromRight ? value.lastIndexOf(separator) : value.indexOf(separator);
  if (at < 0) return tuple(fromRight ? ['', '', value] : [value, '', '']);
  return tuple([value.slice(0, at), separator, value.slice(at + separator.length)]);
}

export function capitalize(value: string): string {
  const [first = '', ...rest] = Array.from(value);
  return first.toUpperCase() + rest.join('').toLowerCase();
}

/** `str.title`: letters that follow no letter are large, all others small. */
export function titleCase(value: string): string {
  return value.replace(/\p{L}+/gu, capitalize);
}

export function swapCase(value: string): string {
  return Array.from(value, (c) => (c === c.toUpperCase() ? c.toLowerCase() : c.toUpperCase())).join(
    '',
  );
}

/** Whether all characters, of which there is at least one, are of a class. */
function all(pattern: RegExp): (value: string) => boolean {
  return (value) => value !== '' && pattern.test(value);
}

export const CHARACTER_TESTS: Readonly<Record<string, (value: string) => boolean>> = {
  isalnum: all(/^[\p{L}\p{N}]+$/u),
  isalpha: all(/^\p{L}+$/u),
  isascii: (value) => /^[\0-\x7f]*$/.test(value),
  isdecimal: all(/^\p{Nd}+$/u),
  isdigit: all(/^[\p{Nd}²³¹⁰⁴-⁹₀-₉]+$/u),
  isnumeric: all(/^\p{N}+$/u),
  isspace: all(new RegExp(`^[${PYTHON_SPACE}]+$`)),
  islower: (value) => value === value.toLowerCase() && value !== value.toUpperCase(),
  isupper: (value) => value === value.toUpperCase() && value !== value.toLowerCase(),
  istitle: (value) => /\p{L}/u.test(value) && value === titleCase(value),
};

/** `format % values`, as far as templates write it: %s, %r, %d, %i, %f, %x and %%, with width and precision. */
export function percentFormat(
  format: string,
  values: readonly Value[],
  shown: {
    text: (value: Value) => string;
    repr: (value: Value) => string;
    number: (value: Value) => number;
  },
): string {
  let next = 0;
  const result = format.replace(
    /%([-0+ ]*)(\d*)(?:\.(\d+))?([srdifxX%])/g,
    (_, flags: string, width: string, precision: string | undefined, kind: string) => {
      if (kind === '%') return '%';
      if (next >= values.length) throw new TemplateError('not enough arguments for format string');
      const value = values[next++];
      let text: string;
      if (kind === 's' || kind === 'r') {
        text = kind === 's' ? shown.text(value) : shown.repr(value);
        if (precision !== undefined) text = text.slice(0, Number(precision));
      } else {
        const number = shown.number(value);
        if (kind === 'f') text = number.toFixed(Number(precision ?? 6));
        else text = Math.trunc(number).toString(kind.toLowerCase() === 'x' ? 16 : 10);
        if (kind === 'X') text = text.toUpperCase();
        if (number >= 0 && flags.includes('+')) text = `+${text}`;
      }
      if (flags.includes('-')) return text.padEnd(Number(width));
      if (!flags.includes('0') || kind === 's' || kind === 'r') return text.padStart(Number(width));
      const sign = /^[-+]?/.exec(text)![0];
      return sign + text.slice(sign.length).padStart(Number(width) - sign.length, '0');
    },
  );
  if (next < values.length) {
    throw new TemplateError('not all arguments converted during string formatting');
  }
  return result;
}
