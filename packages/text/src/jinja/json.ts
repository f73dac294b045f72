/** Python's `json.dumps`, as transformers' filter `tojson` calls it. */

import {
  Float,
  floatText,
  isTrue,
  Namespace,
  TemplateError,
  text,
  typeName,
  Undefined,
  type Value,
} from './values.js';

interface Style {
  escapesNonAscii: boolean;
  indent: string | null;
  itemSeparator: string;
  keySeparator: string;
  sortsKeys: boolean;
}

export function toJson(value: Value, named: ReadonlyMap<string, Value>): string {
  const indent = named.get('indent') ?? null;
  const separators = named.get('separators') ?? null;
  const [itemSeparator, keySeparator] = Array.isArray(separators)
    ? separators.map(text)
    : [indent === null ? ', ' : ',', ': '];
  return dump(value, '', {
    escapesNonAscii: isTrue(named.get('ensure_ascii') ?? false),
    indent:
      typeof indent === 'number' ? ' '.repeat(Math.max(0, indent)) : (indent as string | null),
    itemSeparator,
    keySeparator,
    sortsKeys: isTrue(named.get('sort_keys') ?? false),
  });
}

function dump(value: Value, margin: string, style: Style): string {
  if (value === null) return 'null';
  if (typeof value === 'boolean') return String(value);
  if (typeof value === 'number') return text(value);
  if (typeof value === 'string') return textJson(value, style);
  if (value instanceof Float) return floatJson(value.value);
  const inner = margin + (style.indent ?? '');
  if (Array.isArray(value)) {
    return enclosed(
      '[',
      value.map((item) => dump(item, inner, style)),
      ']',
      margin,
      style,
    );
  }
  if (value instanceof Map) {
    const entries = [...value].map(([key, item]) => [keyText(key), item] as const);
    if (style.sortsKeys) entries.sort(([a], [b]) => (a < b ? -1 : 1));
    const items = entries.map(
      ([key, item]) => textJson(key, style) + style.keySeparator + dump(item, inner, style),
    );
    return enclosed('{', items, '}', margin, style);
  }
  if (value instanceof Undefined || value instanceof Namespace || typeof value === 'function') {
    throw new TemplateError(`Object of type ${typeName(value)} is not JSON serializable`);
  }
  return value satisfies never;
}

function enclosed(
  open: string,
  items: string[],
  close: string,
  margin: string,
  style: Style,
): string {
  const { indent, itemSeparator } = style;
  if (items.length === 0) return open + close;
  if (indent === null) return open + items.join(itemSeparator) + close;
  const line = `\n${margin}${indent}`;
  return `${open}${line}${items.join(itemSeparator + line)}\n${margin}${close}`;
}

function keyText(key: Value): string {
  if (key === null) return 'null';
  if (key instanceof Float) return floatJson(key.value);
  return typeof key === 'boolean' ? String(key) : text(key);
}

function floatJson(value: number): string {
  if (Number.isFinite(value)) return floatText(value);
  return Number.isNaN(value) ? 'NaN' : value > 0 ? 'Infinity' : '-Infinity';
}

function textJson(value: string, { escapesNonAscii }: Style): string {
  const json = JSON.stringify(value);
  if (!escapesNonAscii) return json;
  return json.replace(
    /[^ -~]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
