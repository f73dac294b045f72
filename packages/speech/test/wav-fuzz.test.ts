import { AudioError } from '@mlx-runners/mlx-core/errors';
import fc from 'fast-check';
import { test } from 'vitest';
import { decodeWav } from '../src/index.js';
import { fmt, riff } from './wav-bytes.js';

const uint16 = fc.nat(0xffff);
const uint32 = fc.oneof(fc.nat(0xffffffff), fc.constantFrom(0, 1, 0x7fffffff, 0xffffffff));

const format = fc
  .record({
    tag: fc.oneof(fc.constantFrom(1, 3, 6, 7), uint16),
    channels: fc.oneof(fc.integer({ min: 1, max: 8 }), uint16),
    sampleRate: uint32,
    bits: fc.oneof(fc.constantFrom(8, 16, 24, 32, 64), uint16),
    blockAlign: uint16,
    subformat: fc.option(fc.constantFrom(1, 3, 6, 7, 0x55), { nil: undefined }),
  })
  .map((fields) => fmt(fields));

const otherChunk = fc.record({
  id: fc.constantFrom('data', 'LIST', 'fact', 'ds64', 'fmt ', 'junk'),
  body: fc.uint8Array({ maxLength: 80 }),
  size: fc.option(uint32, { nil: undefined }),
  unpadded: fc.boolean(),
});

const file = fc
  .tuple(
    fc.array(otherChunk, { maxLength: 3 }),
    format,
    fc.array(otherChunk, { maxLength: 4 }),
    fc.constantFrom('RIFF', 'RIFX', 'RF64'),
    fc.boolean(),
  )
  .map(([before, first, after, container, big]) =>
    riff([...before, first, ...after], container, big),
  );

const damage = fc.array(fc.tuple(fc.nat(400), fc.nat(255)), { maxLength: 6 });

/** Decodes or fails with an AudioError, and never makes more than a float for every byte. */
function survives(bytes: Uint8Array): void {
  let samples: Float32Array[];
  try {
    ({ samples } = decodeWav(bytes));
  } catch (error) {
    if (error instanceof AudioError) return;
    throw error;
  }
  const floats = samples.reduce((total, channel) => total + channel.length, 0);
  if (floats > bytes.length) throw new Error(`${floats} samples from ${bytes.length} bytes`);
}

test('damaged WAV files are decoded or refused, and nothing else', () => {
  fc.assert(
    fc.property(file, damage, fc.nat(400), (bytes, flips, cut) => {
      const damaged = bytes.slice(0, cut > 300 ? undefined : cut);
      for (const [at, value] of flips) if (at < damaged.length) damaged[at] ^= value;
      survives(damaged);
    }),
    { numRuns: 3000 },
  );
});

test('arbitrary bytes are decoded or refused', () => {
  fc.assert(fc.property(fc.uint8Array({ maxLength: 300 }), survives), { numRuns: 500 });
});

test('a megabyte of empty chunks takes no longer than it must', () => {
  const header = riff([]);
  const bytes = new Uint8Array(2 ** 20);
  bytes.set(header);
  for (let at = 12; at + 8 <= bytes.length; at += 8) bytes.set(Buffer.from('data'), at);
  survives(bytes);
});
