/** Damage to files of any format, by kind. */
import type { Random } from '../random.js';

export interface Mutation {
  readonly kind: string;
  /** The file with one damage of this kind; the argument stays as it is. */
  readonly apply: (file: Buffer, random: Random) => Buffer;
}

/** Sizes at which readers go wrong: the ends of integer types, and what differs by one from true. */
const EXTREME_SIZES = [
  ...[0n, 1n, 0x7fn, 0x80n, 0xffn, 0x7fffn, 0xffffn],
  ...[2n ** 31n - 1n, 2n ** 31n, 2n ** 32n - 1n, 2n ** 32n],
  ...[2n ** 53n, 2n ** 63n - 1n, 2n ** 63n, 2n ** 64n - 1n],
];

const INVALID_UTF8 = [
  [0xff],
  [0xc3],
  [0xed, 0xa0, 0x80],
  [0xf8, 0x88, 0x80, 0x80, 0x80],
  [0xc0, 0x80],
];

/** Damage that knows nothing of the format. */
export const byteMutations: readonly Mutation[] = [
  {
    kind: 'bits flipped',
    apply: (file, random) =>
      edited(file, (copy) => {
        for (let i = random.below(4); i >= 0; i--) {
          copy[random.below(copy.length)] ^= 1 << random.below(8);
        }
      }),
  },
  {
    kind: 'bytes changed',
    apply: (file, random) =>
      edited(file, (copy) => {
        const at = random.below(copy.length);
        copy.set(random.bytes(Math.min(1 + random.below(8), copy.length - at)), at);
      }),
  },
  { kind: 'truncated', apply: (file, random) => file.subarray(0, random.below(file.length)) },
  {
    kind: 'bytes inserted',
    apply: (file, random) =>
      spliced(file, position(file, random), 0, random.bytes(1 + random.below(16))),
  },
  {
    kind: 'bytes removed',
    apply: (file, random) => spliced(file, position(file, random), 1 + random.below(16)),
  },
  {
    kind: 'a range duplicated',
    apply: (file, random) => {
      const start = position(file, random);
      const range = file.subarray(start, start + 1 + random.below(64));
      return spliced(file, random.chance(0.5) ? start : position(file, random), 0, range);
    },
  },
  {
    kind: 'a range of zeros or ones',
    apply: (file, random) =>
      edited(file, (copy) => {
        const start = position(file, random);
        copy.subarray(start, start + 1 + random.below(32)).fill(random.pick([0, 0xff]));
      }),
  },
  {
    kind: 'a lying size',
    apply: (file, random) =>
      edited(file, (copy) => {
        const width = random.pick([1, 2, 4, 8]);
        if (copy.length < width) return;
        // Headers come first in most formats.
        const reach = random.chance(0.5) ? Math.min(64, copy.length) : copy.length;
        lie(copy, random.below(Math.max(1, reach - width + 1)), width, random);
      }),
  },
  {
    kind: 'text that is no UTF-8',
    apply: (file, random) =>
      spliced(file, position(file, random), 0, Buffer.from(random.pick(INVALID_UTF8))),
  },
  { kind: 'emptied', apply: () => Buffer.alloc(0) },
  { kind: 'replaced by noise', apply: (_, random) => random.bytes(random.below(300)) },
];

function position(file: Buffer, random: Random): number {
  return random.below(file.length + 1);
}

function edited(file: Buffer, edit: (copy: Buffer) => void): Buffer {
  const copy = Buffer.from(file);
  if (copy.length > 0) edit(copy);
  return copy;
}

function spliced(file: Buffer, at: number, removed: number, inserted?: Buffer): Buffer {
  inserted ??= Buffer.alloc(0);
  return Buffer.concat([file.subarray(0, at), inserted, file.subarray(at + removed)]);
}

/** Overwrites the number of `width` bytes at `at` with another one. */
function lie(bytes: Buffer, at: number, width: number, random: Random): void {
  const field = bytes.subarray(at, at + width);
  const bigEndian = random.chance(0.2);
  if (!bigEndian) field.reverse();
  const truth = BigInt(`0x${field.toString('hex')}`);
  const near = [
    truth + 1n,
    truth - 1n,
    truth * 2n,
    -truth,
    BigInt(bytes.length),
    BigInt(bytes.length - at - width),
  ];
  const value = BigInt.asUintN(8 * width, random.pick([...EXTREME_SIZES, ...near]));
  field.write(value.toString(16).padStart(2 * width, '0'), 'hex');
  if (!bigEndian) field.reverse();
}
