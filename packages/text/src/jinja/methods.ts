/** Attributes and methods of values. Those that change a value are not there, as in Python's sandbox. */

import {
  capitalize,
  CHARACTER_TESTS,
  partition,
  replace,
  split,
  splitLines,
  strip,
  swapCase,
  titleCase,
} from './python-text.js';
import {
  equals,
  Float,
  iterate,
  Namespace,
  TemplateError,
  text,
  Tuple,
  tuple,
  typeName,
  Undefined,
  type Callable,
  type Value,
} from './values.js';

type Method<T> = (value: T, args: Arguments) => Value;

/** Arguments by place or by name. */
export class Arguments {
  private readonly args: readonly Value[];
  private readonly named: ReadonlyMap<string, Value>;

  constructor(args: readonly Value[], named: ReadonlyMap<string, Value>) {
    this.args = args;
    this.named = named;
  }

  /** A place of −1 is of an argument that has to be named. */
  get(place: number, name: string): Value | undefined;
  get(place: number, name: string, fallback: Value): Value;
  get(place: number, name: string, fallback?: Value): Value | undefined {
    const value = place in this.args ? this.args[place] : this.named.get(name);
    return value === undefined ? fallback : value;
  }

  text(place: number, name: string, fallback?: string): string {
    const value = this.get(place, name) ?? fallback;
    if (typeof value === 'string') return value;
    if (value === undefined) throw new TemplateError(`argument '${name}' is missing`);
    throw new TemplateError(`argument '${name}' must be str, not ${typeName(value)}`);
  }

  integer(place: number, name: string, fallback: number): number {
    const value = this.get(place, name) ?? fallback;
    if (typeof value === 'number') return value;
    throw new TemplateError(`argument '${name}' must be int, not ${typeName(value)}`);
  }

  /** A text, or null for None or none. */
  optionalText(place: number, name: string): string | null {
    return (this.get(place, name) ?? null) === null ? null : this.text(place, name);
  }

  all(): readonly Value[] {
    return this.args;
  }

  names(): ReadonlyMap<string, Value> {
    return this.named;
  }

  /** All by name; those given by place take these names in order. */
  byName(names: readonly string[]): ReadonlyMap<string, Value> {
    return new Map([...this.named, ...this.args.map((arg, i) => [names[i], arg] as const)]);
  }
}

const trimmed =
  (sides: 'both' | 'left' | 'right'): Method<string> =>
  (value, args) =>
    strip(value, args.optionalText(0, 'chars'), sides);

const affix =
  (has: (value: string, part: string) => boolean): Method<string> =>
  (value, args) => {
    const parts = args.get(0, 'prefix') ?? null;
    return (parts instanceof Tuple ? parts : [parts]).some((part) => {
      if (typeof part === 'string') return has(value, part);
      throw new TemplateError(`a str or a tuple of str is needed, not ${typeName(part)}`);
    });
  };

/** Finds by code points, as Python counts. */
const finder =
  (last: boolean, fails: boolean): Method<string> =>
  (value, args) => {
    const part = args.text(0, 'sub');
    const start = args.integer(1, 'start', 0);
    const characters = Array.from(value);
    const from = characters.slice(0, start).join('').length;
    const at = last ? value.lastIndexOf(part) : value.indexOf(part, from);
    if (at >= from) return Array.from(value.slice(0, at)).length;
    if (fails) throw new TemplateError('substring not found');
    return -1;
  };

const padded =
  (pad: (value: string, missing: number, fill: string) => string): Method<string> =>
  (value, args) => {
    const missing = args.integer(0, 'width', 0) - Array.from(value).length;
    return missing > 0 ? pad(value, missing, args.text(1, 'fillchar', ' ')) : value;
  };

const TEXT: Readonly<Record<string, Method<string>>> = {
  ...Object.fromEntries(
    Object.entries(CHARACTER_TESTS).map(([name, test]) => [name, (value: string) => test(value)]),
  ),
  capitalize,
  title: titleCase,
  swapcase: swapCase,
  upper: (value) => value.toUpperCase(),
  lower: (value) => value.toLowerCase(),
  casefold: (value) => value.toLowerCase().replaceAll('ß', 'ss'),
  strip: trimmed('both'),
  lstrip: trimmed('left'),
  rstrip: trimmed('right'),
  split: (value, args) =>
    split(value, args.optionalText(0, 'sep'), args.integer(1, 'maxsplit', -1)),
  rsplit: (value, args) =>
    split(value, args.optionalText(0, 'sep'), args.integer(1, 'maxsplit', -1), true),
  splitlines: (value, args) => splitLines(value, Boolean(args.get(0, 'keepends', false))),
  partition: (value, args) => partition(value, args.text(0, 'sep')),
  rpartition: (value, args) => partition(value, args.text(0, 'sep'), true),
  startswith: affix((value, part) => value.startsWith(part)),
  endswith: affix((value, part) => value.endsWith(part)),
  removeprefix: (value, args) => {
    const prefix = args.text(0, 'prefix');
    return value.startsWith(prefix) ? value.slice(prefix.length) : value;
  },
  removesuffix: (value, args) => {
    const suffix = args.text(0, 'suffix');
    return value.endsWith(suffix) ? value.slice(0, value.length - suffix.length) : value;
  },
  replace: (value, args) => {
    const most = args.integer(2, 'count', -1);
    return replace(value, args.text(0, 'old'), args.text(1, 'new'), most < 0 ? Infinity : most);
  },
  find: finder(false, false),
  rfind: finder(true, false),
  index: finder(false, true),
  rindex: finder(true, true),
  count: (value, args) => {
    const part = args.text(0, 'sub');
    return part === '' ? Array.from(value).length + 1 : value.split(part).length - 1;
  },
  join: (value, args) =>
    iterate(args.get(0, 'iterable', []))
      .map((item) => {
        if (typeof item === 'string') return item;
        throw new TemplateError(`sequence item: expected str instance, ${typeName(item)} found`);
      })
      .join(value),
  ljust: padded((value, missing, fill) => value + fill.repeat(missing)),
  rjust: padded((value, missing, fill) => fill.repeat(missing) + value),
  center: padded((value, missing, fill) => {
    const left = (missing >> 1) + (missing & (Array.from(value).length + missing) & 1);
    return fill.repeat(left) + value + fill.repeat(missing - left);
  }),
  zfill: padded((value, missing) => {
    const sign = /^[-+]?/.exec(value)![0];
    return sign + '0'.repeat(missing) + value.slice(sign.length);
  }),
  format: (value, args) => {
    let next = 0;
    return value.replace(/\{\{|\}\}|\{(\w*)\}/g, (whole, field: string | undefined) => {
      if (field === undefined) return whole[0];
      const place = field === '' ? next++ : Number(field);
      const argument = Number.isNaN(place) ? args.get(-1, field) : args.all()[place];
      if (argument === undefined) throw new TemplateError(`format() has no argument for ${whole}`);
      return text(argument);
    });
  },
};

const LIST: Readonly<Record<string, Method<readonly Value[]>>> = {
  index: (value, args) => {
    const at = value.findIndex((item) => equals(item, args.get(0, 'value', null)));
    if (at < 0) throw new TemplateError('the value is not in the list');
    return at;
  },
  count: (value, args) => value.filter((item) => equals(item, args.get(0, 'value', null))).length,
  copy: (value) => [...value],
};

const DICT: Readonly<Record<string, Method<ReadonlyMap<Value, Value>>>> = {
  get: (value, args) =>
    value.get(dictKey(args.get(0, 'key', null))) ?? args.get(1, 'default', null),
  items: (value) => Array.from(value, (entry) => tuple(entry)),
  keys: (value) => [...value.keys()],
  values: (value) => [...value.values()],
  copy: (value) => new Map(value),
};

/** Keys that Python takes for equal are one key. */
export function dictKey(key: Value): Value {
  if (key instanceof Float && Number.isInteger(key.value)) return key.value;
  return typeof key === 'boolean' ? Number(key) : key;
}

/** `value.name`: an attribute, else an item. */
export function attribute(value: Value, name: string): Value {
  return ownAttribute(value, name) ?? item(value, name) ?? missing(value, name);
}

/** `value[key]`: an item, else an attribute. */
export function subscript(value: Value, key: Value): Value {
  const found = item(value, key);
  if (found !== undefined) return found;
  const own = typeof key === 'string' ? ownAttribute(value, key) : undefined;
  return own ?? missing(value, key);
}

function missing(value: Value, key: Value): Undefined {
  const named = typeof key === 'string' ? `attribute '${key}'` : `element ${text(key)}`;
  return new Undefined(`'${typeName(value)} object' has no ${named}`);
}

function ownAttribute(value: Value, name: string): Value | undefined {
  if (value instanceof Undefined) return value.fail();
  if (value instanceof Namespace) return value.attributes.get(name);
  if (typeof value === 'string') return method(TEXT, value, name);
  if (Array.isArray(value)) return method(LIST, value, name);
  if (value instanceof Map) return method(DICT, value, name);
  return undefined;
}

function method<T>(methods: Readonly<Record<string, Method<T>>>, value: T, name: string) {
  if (!Object.hasOwn(methods, name)) return undefined;
  const callable: Callable = (args, named) => methods[name](value, new Arguments(args, named));
  return callable;
}

function item(value: Value, key: Value): Value | undefined {
  if (value instanceof Undefined) return value.fail();
  if (value instanceof Map) return value.get(dictKey(key));
  if (typeof key !== 'number' && typeof key !== 'boolean') return undefined;
  if (Array.isArray(value)) return value.at(Number(key));
  return typeof value === 'string' ? Array.from(value).at(Number(key)) : undefined;
}
