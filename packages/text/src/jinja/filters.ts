/** Jinja's filters (jinja2/filters.py) with transformers' own `tojson`. */

import { toJson } from './json.js';
import { Arguments, attribute, subscript } from './methods.js';
import { binary } from './operators.js';
import { capitalize, percentFormat, PYTHON_SPACE, replace, strip } from './python-text.js';
import { test } from './tests.js';
import {
  compare,
  equals,
  Float,
  isNumber,
  isTrue,
  iterate,
  numberOf,
  repr,
  TemplateError,
  text,
  tuple,
  typeName,
  Undefined,
  type Value,
} from './values.js';

type Filter = (value: Value, args: Arguments) => Value;

/** @throws TemplateError for a filter that there is not */
export function filter(name: string, value: Value, args: Arguments): Value {
  const negated = /^is (not )?(.*)$/s.exec(name);
  if (negated) return test(negated[2], value, args) !== (negated[1] !== undefined);
  if (!Object.hasOwn(FILTERS, name)) throw new TemplateError(`No filter named '${name}'.`);
  return FILTERS[name](value, args);
}

function length(value: Value): number {
  if (value instanceof Map) return value.size;
  return iterate(value).length;
}

/** An item's attribute by a path (`'a.b'`, `0`); the item itself without one. */
function lookUp(item: Value, path: Value | undefined): Value {
  if (path === undefined || path === null) return item;
  const keys = typeof path === 'string' ? path.split('.') : [path];
  return keys.reduce<Value>(
    (value, key) =>
      subscript(value, typeof key === 'string' && /^\d+$/.test(key) ? Number(key) : key),
    item,
  );
}

function foldCase(value: Value, isCaseSensitive: boolean): Value {
  return typeof value === 'string' && !isCaseSensitive ? value.toLowerCase() : value;
}

const sort: Filter = (value, args) => {
  const isCaseSensitive = isTrue(args.get(1, 'case_sensitive', false));
  const path = args.get(2, 'attribute');
  // Several attributes in order, as in 'role,name'.
  const paths = typeof path === 'string' ? path.split(',') : [path];
  const keyed = iterate(value).map((item) => ({
    item,
    key: paths.map((path) => foldCase(lookUp(item, path), isCaseSensitive)),
  }));
  const sign = isTrue(args.get(0, 'reverse', false)) ? -1 : 1;
  return keyed.sort((a, b) => sign * compare(a.key, b.key)).map(({ item }) => item);
};

const dictSort: Filter = (value, args) => {
  if (!(value instanceof Map)) throw new TemplateError(`dictsort: ${typeName(value)} is no dict`);
  const isCaseSensitive = isTrue(args.get(0, 'case_sensitive', false));
  const by = args.get(1, 'by', 'key') === 'value' ? 1 : 0;
  const sign = isTrue(args.get(2, 'reverse', false)) ? -1 : 1;
  const key = (entry: readonly Value[]) => foldCase(entry[by], isCaseSensitive);
  return [...value].sort((a, b) => sign * compare(key(a), key(b))).map(tuple);
};

const unique: Filter = (value, args) => {
  const isCaseSensitive = isTrue(args.get(0, 'case_sensitive', false));
  const seen: Value[] = [];
  return iterate(value).filter((item) => {
    const key = foldCase(lookUp(item, args.get(1, 'attribute')), isCaseSensitive);
    const isNew = !seen.some((other) => equals(other, key));
    if (isNew) seen.push(key);
    return isNew;
  });
};

const extreme =
  (sign: number): Filter =>
  (value, args) => {
    const isCaseSensitive = isTrue(args.get(0, 'case_sensitive', false));
    const key = (item: Value) => foldCase(lookUp(item, args.get(1, 'attribute')), isCaseSensitive);
    const items = iterate(value);
    if (items.length === 0) return new Undefined('No aggregated item, sequence was empty.');
    return items.reduce((best, item) => (sign * compare(key(item), key(best)) < 0 ? item : best));
  };

const selected =
  (keeps: boolean, byAttribute: boolean): Filter =>
  (value, args) => {
    const all = args.all();
    const path = byAttribute ? all[0] : undefined;
    const [name, ...rest] = byAttribute ? all.slice(1) : all;
    return iterate(value).filter((item) => {
      const subject = lookUp(item, path);
      const fits =
        name === undefined
          ? isTrue(subject)
          : test(text(name), subject, new Arguments(rest, new Map()));
      return fits === keeps;
    });
  };

const map: Filter = (value, args) => {
  const path = args.get(-1, 'attribute');
  const [name, ...rest] = args.all();
  return iterate(value).map((item) => {
    if (path === undefined) return filter(text(name), item, new Arguments(rest, args.names()));
    const found = lookUp(item, path);
    return found instanceof Undefined ? args.get(-1, 'default', found) : found;
  });
};

const join: Filter = (value, args) => {
  const path = args.get(1, 'attribute');
  return iterate(value)
    .map((item) => text(lookUp(item, path)))
    .join(text(args.get(0, 'd', '')));
};

const indent: Filter = (value, args) => {
  const width = args.get(0, 'width', 4);
  const margin = typeof width === 'string' ? width : ' '.repeat(numberOf(width as number));
  const [first, blank] = [isTrue(args.get(1, 'first', false)), isTrue(args.get(2, 'blank', false))];
  return text(value)
    .split('\n')
    .map((line, i) => ((i === 0 ? !first : line === '' && !blank) ? line : margin + line))
    .join('\n');
};

const batch: Filter = (value, args) => {
  const size = args.integer(0, 'linecount', 1);
  const fill = args.get(1, 'fill_with', null);
  const items = iterate(value);
  const rows = Array.from({ length: Math.ceil(items.length / size) }, (_, i) =>
    items.slice(i * size, (i + 1) * size),
  );
  const last = rows.at(-1);
  if (last && fill !== null) while (last.length < size) last.push(fill);
  return rows;
};

const groupBy: Filter = (value, args) => {
  const path = args.get(0, 'attribute');
  const groups: [Value, Value[]][] = [];
  for (const item of sort(
    value,
    new Arguments([], new Map([['attribute', path ?? null]])),
  ) as Value[]) {
    const key = lookUp(item, path);
    const last = groups.at(-1);
    if (last && equals(last[0], key)) last[1].push(item);
    else groups.push([key, [item]]);
  }
  return groups.map(tuple);
};

const integer: Filter = (value, args) => {
  if (isNumber(value)) return Math.trunc(numberOf(value));
  const written = typeof value === 'string' ? strip(value, null, 'both').replaceAll('_', '') : '';
  const base = args.integer(1, 'base', 10);
  if (base === 10 ? /^[-+]?\d+$/.test(written) : written !== '') {
    return Number.parseInt(written, base);
  }
  const number = Number(written || 'x');
  return Number.isNaN(number) ? args.get(0, 'default', 0) : Math.trunc(number);
};

const float: Filter = (value, args) => {
  const number = isNumber(value) ? numberOf(value) : Number(text(value).trim() || 'x');
  return Number.isNaN(number) ? args.get(0, 'default', new Float(0)) : new Float(number);
};

const round: Filter = (value, args) => {
  if (!isNumber(value)) throw new TemplateError(`a number is required, not ${typeName(value)}`);
  const scale = 10 ** args.integer(0, 'precision', 0);
  const method = args.text(1, 'method', 'common');
  const scaled = numberOf(value) * scale;
  const rounding: Record<string, (x: number) => number> = {
    ceil: Math.ceil,
    floor: Math.floor,
    // Halves go to the even side.
    common: (x) => (Math.abs(x % 1) === 0.5 ? 2 * Math.round(x / 2) : Math.round(x)),
  };
  return new Float(rounding[method](scaled) / scale);
};

const truncate: Filter = (value, args) => {
  const [full, end] = [text(value), args.text(2, 'end', '...')];
  const size = args.integer(0, 'length', 255);
  const characters = Array.from(full);
  if (characters.length <= size + args.integer(3, 'leeway', 5)) return full;
  const cut = characters.slice(0, size - end.length).join('');
  if (isTrue(args.get(1, 'killwords', false))) return cut + end;
  return cut.slice(0, cut.lastIndexOf(' ') < 0 ? undefined : cut.lastIndexOf(' ')) + end;
};

const sum: Filter = (value, args) => {
  const start = args.get(1, 'start', 0);
  const path = args.get(0, 'attribute');
  return iterate(value).reduce((total, item) => binary('+', total, lookUp(item, path)), start);
};

const reverse: Filter = (value) =>
  typeof value === 'string' ? Array.from(value).reverse().join('') : [...iterate(value)].reverse();

const orDefault: Filter = (value, args) => {
  const isMissing =
    value instanceof Undefined || (isTrue(args.get(1, 'boolean', false)) && !isTrue(value));
  return isMissing ? args.get(0, 'default_value', '') : value;
};

const title: Filter = (value) =>
  text(value)
    .split(new RegExp(`([-${PYTHON_SPACE}({\\[<]+)`))
    .map(capitalize)
    .join('');

const items: Filter = (value) => {
  if (value instanceof Undefined) return [];
  if (!(value instanceof Map)) throw new TemplateError('Can only get item pairs from a mapping.');
  return Array.from(value, (entry) => tuple(entry));
};

const HTML: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&#34;',
  "'": '&#39;',
};
const escape: Filter = (value) => text(value).replace(/[&<>"']/g, (character) => HTML[character]);

const end =
  (at: 0 | -1): Filter =>
  (value) =>
    iterate(value).at(at) ?? new Undefined('No first or last item, sequence was empty.');

const FILTERS: Readonly<Record<string, Filter>> = {
  abs: (value) => (numberOf(value as number) < 0 ? binary('*', value, -1) : value),
  attr: (value, args) => attribute(value, args.text(0, 'name')),
  batch,
  capitalize: (value) => capitalize(text(value)),
  count: length,
  d: orDefault,
  default: orDefault,
  dictsort: dictSort,
  e: escape,
  escape,
  first: end(0),
  float,
  format: (value, args) =>
    percentFormat(text(value), args.all(), {
      text,
      repr,
      number: (item) => numberOf(item as number),
    }),
  groupby: groupBy,
  indent,
  int: integer,
  items,
  join,
  last: end(-1),
  length,
  list: (value) => [...iterate(value)],
  lower: (value) => text(value).toLowerCase(),
  map,
  max: extreme(-1),
  min: extreme(1),
  reject: selected(false, false),
  rejectattr: selected(false, true),
  replace: (value, args) => {
    const most = args.get(2, 'count', null);
    const count = most === null ? Infinity : numberOf(most as number);
    return replace(text(value), text(args.get(0, 'old', '')), text(args.get(1, 'new', '')), count);
  },
  reverse,
  round,
  safe: text,
  select: selected(true, false),
  selectattr: selected(true, true),
  sort,
  string: text,
  sum,
  title,
  tojson: (value, args) =>
    toJson(value, args.byName(['ensure_ascii', 'indent', 'separators', 'sort_keys'])),
  trim: (value, args) => strip(text(value), args.optionalText(0, 'chars'), 'both'),
  truncate,
  unique,
  upper: (value) => text(value).toUpperCase(),
  wordcount: (value) => (text(value).match(/[\p{L}\p{N}_]+/gu) ?? []).length,
};
