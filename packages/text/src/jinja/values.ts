/**
 * Python's values as templates see them, and what Python makes of them: truth, text, equality, order.
 *
 * None is null, bool is boolean, int is a whole number, float is Float, str is string, list is an array,
 * tuple is Tuple, dict is a Map.
 */

export type Value =
  | null
  | boolean
  | number
  | string
  | Float
  | Undefined
  | Namespace
  | Callable
  | Value[]
  | Map<Value, Value>;

/** A function, method or macro, with positional and keyword arguments. */
export type Callable = (args: readonly Value[], named: ReadonlyMap<string, Value>) => Value;

/** What a template does with a value that Python would not; raised as one error of the template. */
export class TemplateError extends Error {}

export class Float {
  readonly value: number;

  constructor(value: number) {
    this.value = value;
  }
}

export class Tuple extends Array<Value> {
  // Methods of arrays give lists, as slices and sums of anything but tuples do.
  static override get [Symbol.species]() {
    return Array;
  }
}

export function tuple(items: readonly Value[]): Tuple {
  const made = new Tuple();
  made.push(...items);
  return made;
}

/** What `namespace()` makes: the one thing whose attributes can be set. */
export class Namespace {
  readonly attributes: Map<string, Value>;

  constructor(attributes: Map<string, Value>) {
    this.attributes = attributes;
  }
}

/** A variable, attribute or item that is not there. It is empty, and false; all other use is an error. */
export class Undefined {
  private readonly message: string;

  constructor(message: string) {
    this.message = message;
  }

  fail(): never {
    throw new TemplateError(this.message);
  }
}

/** JSON-like data as Python has them; keys without a value are left out. */
export function toValue(data: unknown): Value {
  if (data === null || typeof data === 'boolean' || typeof data === 'string') return data;
  if (typeof data === 'number') return Number.isInteger(data) ? data : new Float(data);
  if (Array.isArray(data)) return data.map(toValue);
  if (typeof data === 'object' && !ArrayBuffer.isView(data)) {
    const entries = Object.entries(data).filter(([, value]) => value !== undefined);
    return new Map(entries.map(([key, value]) => [key, toValue(value)]));
  }
  // Pictures and sound: a template asks whether they are there, and no more.
  return `<${typeof data}>`;
}

export function isTrue(value: Value): boolean {
  if (value instanceof Undefined) return false;
  if (value instanceof Float) return value.value !== 0;
  if (value instanceof Map) return value.size > 0;
  return Array.isArray(value) ? value.length > 0 : Boolean(value);
}

export function isNumber(value: Value): value is number | boolean | Float {
  return typeof value === 'number' || typeof value === 'boolean' || value instanceof Float;
}

export function numberOf(value: number | boolean | Float): number {
  return value instanceof Float ? value.value : Number(value);
}

export function typeName(value: Value): string {
  if (value === null) return 'NoneType';
  if (value instanceof Tuple) return 'tuple';
  if (Array.isArray(value)) return 'list';
  if (value instanceof Map) return 'dict';
  if (value instanceof Float) return 'float';
  if (value instanceof Undefined) return 'Undefined';
  if (value instanceof Namespace) return 'Namespace';
  const names: Record<string, string> = { boolean: 'bool', number: 'int', string: 'str' };
  return names[typeof value] ?? typeof value;
}

/** The items that a loop goes over: those of a list, a dict's keys, a text's characters. */
export function iterate(value: Value): readonly Value[] {
  if (Array.isArray(value)) return value;
  if (typeof value === 'string') return Array.from(value);
  if (value instanceof Map) return [...value.keys()];
  if (value instanceof Undefined) return [];
  throw new TemplateError(`'${typeName(value)}' object is not iterable`);
}

export function equals(a: Value, b: Value): boolean {
  if (isNumber(a) && isNumber(b)) return numberOf(a) === numberOf(b);
  if (Array.isArray(a) && Array.isArray(b)) {
    if (a instanceof Tuple !== b instanceof Tuple || a.length !== b.length) return false;
    return a.every((item, i) => equals(item, b[i]));
  }
  if (a instanceof Map && b instanceof Map) {
    if (a.size !== b.size) return false;
    return [...a].every(([key, value]) => b.has(key) && equals(value, b.get(key)!));
  }
  if (a instanceof Undefined && b instanceof Undefined) return true;
  return a === b;
}

/** Less than 0 where a comes before b. @throws TemplateError for what Python has no order of */
export function compare(a: Value, b: Value, operator = '<'): number {
  if (isNumber(a) && isNumber(b)) return numberOf(a) - numberOf(b);
  if (typeof a === 'string' && typeof b === 'string') return compareTexts(a, b);
  if (Array.isArray(a) && Array.isArray(b) && a instanceof Tuple === b instanceof Tuple) {
    const i = a.findIndex((item, i) => i >= b.length || !equals(item, b[i]));
    return i < 0 || i >= b.length ? a.length - b.length : compare(a[i], b[i], operator);
  }
  if (a instanceof Undefined) a.fail();
  if (b instanceof Undefined) b.fail();
  throw new TemplateError(
    `'${operator}' not supported between instances of '${typeName(a)}' and '${typeName(b)}'`,
  );
}

/** In the order of code points, which that of UTF-16 units is not. */
function compareTexts(a: string, b: string): number {
  const [left, right] = [Array.from(a), Array.from(b)];
  const i = left.findIndex((character, i) => character !== right[i]);
  if (i < 0 || i >= right.length) return left.length - right.length;
  return left[i].codePointAt(0)! - right[i].codePointAt(0)!;
}

/** Python's `str()`. */
export function text(value: Value): string {
  if (typeof value === 'string') return value;
  return value instanceof Undefined ? '' : repr(value);
}

/** Python's `repr()`. */
export function repr(value: Value): string {
  if (value === null) return 'None';
  if (value === true) return 'True';
  if (value === false) return 'False';
  if (typeof value === 'string') return quotedText(value);
  if (typeof value === 'number') return integerText(value);
  if (value instanceof Float) return floatText(value.value);
  if (value instanceof Undefined) return 'Undefined';
  if (value instanceof Tuple)
    return `(${value.map(repr).join(', ')}${value.length === 1 ? ',' : ''})`;
  if (Array.isArray(value)) return `[${value.map(repr).join(', ')}]`;
  if (value instanceof Map) {
    return `{${Array.from(value, ([key, item]) => `${repr(key)}: ${repr(item)}`).join(', ')}}`;
  }
  if (value instanceof Namespace) return `<Namespace ${repr(new Map(value.attributes))}>`;
  return '<function>';
}

function integerText(value: number): string {
  return Number.isSafeInteger(value) ? String(value) : BigInt(value).toString();
}

/** The shortest digits that give the number, written out between 1e-4 and 1e16 as Python does. */
export function floatText(value: number): string {
  if (Number.isNaN(value)) return 'nan';
  if (!Number.isFinite(value)) return value > 0 ? 'inf' : '-inf';
  if (value === 0) return Object.is(value, -0) ? '-0.0' : '0.0';
  const [mantissa, exponentText] = value.toExponential().split('e');
  const exponent = Number(exponentText);
  if (exponent < -4 || exponent >= 16) {
    const digits = String(Math.abs(exponent)).padStart(2, '0');
    return `${mantissa}e${exponent < 0 ? '-' : '+'}${digits}`;
  }
  const plain =
    exponent < 0 ? value.toFixed(mantissa.replace(/\D/g, '').length - 1 - exponent) : String(value);
  return plain.includes('.') ? plain : `${plain}.0`;
}

const ESCAPES: Readonly<Record<string, string>> = {
  '\n': '\\n',
  '\r': '\\r',
  '\t': '\\t',
  '\\': '\\\\',
};

function quotedText(value: string): string {
  const quote = value.includes("'") && !value.includes('"') ? '"' : "'";
  const escaped = value.replace(/[\\\p{C}\p{Z}'"]/gu, (character) => {
    if (character === ' ' || character === '"') return character;
    if (character === "'") return quote === "'" ? "\\'" : character;
    const code = character.codePointAt(0)!;
    const hex = code.toString(16);
    const long = code > 0xffff ? `\\U${hex.padStart(8, '0')}` : `\\u${hex.padStart(4, '0')}`;
    return ESCAPES[character] ?? (code < 0x100 ? `\\x${hex.padStart(2, '0')}` : long);
  });
  return quote + escaped + quote;
}
