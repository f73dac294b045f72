import {
  byteMutations,
  cTranslate2Bytes,
  inSafetensorsHeader,
  jsonMutations,
  Random,
} from '@mlx-runners/test-fixtures';
import { describe, expect, it, test } from 'vitest';

const json = Buffer.from(
  JSON.stringify({ name: 'model', sizes: [1, 2, 3], nested: { on: true, none: null, size: 4 } }),
);
const seeds = Array.from({ length: 20 }, (_, seed) => seed);

describe.each([...byteMutations, ...jsonMutations])('$kind', ({ apply }) => {
  it('is determined by the seed and leaves the file as it was', () => {
    const before = Buffer.from(json);
    for (const seed of seeds) {
      expect(apply(json, new Random(seed)).equals(apply(json, new Random(seed)))).toBe(true);
    }
    expect(json).toEqual(before);
  });

  it('damages many files', () => {
    const changed = seeds.filter((seed) => !apply(json, new Random(seed)).equals(json));
    expect(changed.length).toBeGreaterThan(seeds.length / 4);
  });

  it('takes an empty file and one that is no JSON', () => {
    for (const file of [Buffer.alloc(0), Buffer.of(0xff), Buffer.from('{')]) {
      for (const seed of seeds) expect(apply(file, new Random(seed))).toBeInstanceOf(Buffer);
    }
  });
});

test('no two kinds have one name', () => {
  const kinds = [...byteMutations, ...jsonMutations].map(({ kind }) => kind);
  expect(new Set(kinds).size).toBe(kinds.length);
});

describe('inSafetensorsHeader', () => {
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(json.length));
  const data = Buffer.from('tensors');
  const file = Buffer.concat([length, json, data]);

  it('changes the header alone, and says its new length', () => {
    for (const mutation of jsonMutations) {
      for (const seed of seeds.slice(0, 5)) {
        const damaged = inSafetensorsHeader(mutation).apply(file, new Random(seed));
        const end = 8 + Number(damaged.readBigUInt64LE());
        const header = mutation.apply(json, new Random(seed));
        expect(damaged.subarray(8, end).equals(header)).toBe(true);
        expect(damaged.subarray(end).equals(data)).toBe(true);
      }
    }
  });

  it('leaves a file without a header alone', () => {
    const other = Buffer.alloc(12, 0xff);
    expect(inSafetensorsHeader(byteMutations[0]).apply(other, new Random(1))).toBe(other);
  });
});

test('cTranslate2Bytes writes version, variables and aliases', () => {
  const bytes = cTranslate2Bytes([{ name: 'w', shape: [1, 2], data: Int16Array.of(1, -1) }], {
    aliases: { a: 'w' },
  });
  const expected = [
    ['06000000', '0c00', Buffer.from('WhisperSpec\0').toString('hex'), '03000000'],
    ['01000000', '0200', '7700', '02', '01000000', '02000000', '02', '04000000', '0100ffff'],
    ['01000000', '0200', '6100', '0200', '7700'],
  ];
  expect(bytes.toString('hex')).toBe(expected.flat().join(''));
});
