/** Damage to JSON files that leaves them JSON, or nearly so, by kind. */
import type { Random } from '../random.js';
import type { Mutation } from './byte-mutations.js';

const NUMBERS = [
  ...['0', '-0', '-1', '1', '0.5', '255', '65536', '1e-400', '1e999', '-1e999', 'NaN', 'Infinity'],
  ...['2147483647', '2147483648', '4294967295', '4294967296', '-2147483649'],
  ...['9007199254740992', '9223372036854775807', '9223372036854775808', '18446744073709551616'],
];
const WRONG_TYPES = [
  'null',
  'true',
  '0',
  '-1',
  '1.5',
  '""',
  '"text"',
  '[]',
  '[0]',
  '[null]',
  '{}',
  '{"a":0}',
];

/** Names that objects have by themselves, and others that code trips over. */
const NAMES = [
  ...['__proto__', 'constructor', 'toString', 'hasOwnProperty', 'length', '', '0', '__metadata__'],
  ...['../outside', '/', '\u0000', '\u001b[2J', '\n', '\ud800', '\u202e', '💥', 'n'.repeat(70_000)],
];

const DEPTH = 20_000;

/** The value at one place of a file becomes the JSON that this returns; undefined leaves it. */
type Rewrite = (value: unknown, random: Random) => string | undefined;

export const jsonMutations: readonly Mutation[] = [
  rewriting('a value of another type', (_, random) => random.pick(WRONG_TYPES)),
  rewriting('an extreme number', (value, random) =>
    typeof value === 'number'
      ? random.pick([
          ...NUMBERS,
          String(value + 1),
          String(value - 1),
          String(-value),
          `"${value}"`,
        ])
      : undefined,
  ),
  rewriting('a strange name', (value, random) =>
    typeof value === 'string' ? JSON.stringify(random.pick(NAMES)) : undefined,
  ),
  members('a member removed', (entries, random) => entries.splice(random.below(entries.length), 1)),
  members('a member renamed', (entries, random) => {
    random.pick(entries)[0] = random.pick(NAMES);
  }),
  members('a member added', (entries, random) => {
    entries.push([random.pick(NAMES), random.pick(entries)[1]]);
  }),
  members('a key twice', (entries, random) => {
    entries.push([random.pick(entries)[0], random.pick(entries)[1]]);
  }),
  members('two values exchanged', (entries, random) => {
    const [one, other] = [random.pick(entries), random.pick(entries)];
    [one[1], other[1]] = [other[1], one[1]];
  }),
  rewriting('a list shortened or lengthened', (value, random) => {
    if (!Array.isArray(value) || value.length === 0) return undefined;
    const list: readonly unknown[] = value;
    const at = random.below(list.length);
    const times = random.pick([0, 2, 3, 5000]);
    return JSON.stringify([
      ...list.slice(0, at),
      ...Array<unknown>(times).fill(list[at]),
      ...list.slice(at + 1),
    ]);
  }),
  rewriting('nested deeply', (value, random) => {
    const [open, close] = random.pick([
      ['[', ']'],
      ['{"a":', '}'],
    ]);
    return open.repeat(DEPTH) + JSON.stringify(value) + close.repeat(DEPTH);
  }),
];

function members(
  kind: string,
  change: (entries: [string, unknown][], random: Random) => unknown,
): Mutation {
  return rewriting(kind, (value, random) => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
    const entries = Object.entries(value);
    if (entries.length === 0) return undefined;
    change(entries, random);
    const written = entries.map(([key, each]) => `${JSON.stringify(key)}:${JSON.stringify(each)}`);
    return `{${written.join()}}`;
  });
}

const PLACEHOLDER = '@the rewritten value@';

function rewriting(kind: string, rewrite: Rewrite): Mutation {
  return {
    kind,
    apply(file, random) {
      try {
        const document = { root: JSON.parse(file.toString('utf8')) as unknown };
        // Not every place has what a kind changes.
        for (let attempt = 0; attempt < 10; attempt++) {
          const [holder, key] = somewhere(document, random);
          const json = rewrite(holder[key], random);
          if (json === undefined) continue;
          holder[key] = PLACEHOLDER;
          const text = JSON.stringify(document.root);
          return Buffer.from(text.replace(JSON.stringify(PLACEHOLDER), () => json));
        }
        return file;
      } catch {
        // An earlier mutation has left no JSON, or too deep a one.
        return file;
      }
    },
  };
}

/** A random place. Each level is as likely to be met, so that long lists don't get all the damage. */
function somewhere(document: object, random: Random): [Record<string, unknown>, string] {
  let [holder, key] = [document as Record<string, unknown>, 'root'];
  for (;;) {
    const value = holder[key];
    const keys = typeof value === 'object' && value !== null ? Object.keys(value) : [];
    if (keys.length === 0 || random.chance(0.2)) return [holder, key];
    holder = value as Record<string, unknown>;
    key = random.pick(keys);
  }
}

/** A mutation of the JSON header of a safetensors file, whose length prefix stays true. */
export function inSafetensorsHeader({ kind, apply }: Mutation): Mutation {
  return {
    kind: `header: ${kind}`,
    apply(file, random) {
      const end = file.length < 8 ? 0 : 8 + Number(file.readBigUInt64LE());
      if (end < 8 || end > file.length) return file;
      const header = apply(file.subarray(8, end), random);
      const length = Buffer.alloc(8);
      length.writeBigUInt64LE(BigInt(header.length));
      return Buffer.concat([length, header, file.subarray(end)]);
    },
  };
}
