/** Arrays whose elements start at odd addresses, as tensors of files that align nothing do. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { mx, MxArray } from '@mlx-runners/mlx-core';
import { native } from '../src/native.js';

/** The same arrays, taken from a file in which they start at bytes 1, 3, 5 or 7 of eight. */
export function unaligned(
  { mapFile }: Pick<typeof mx, 'mapFile'>,
  arrays: readonly MxArray[],
): MxArray[] {
  const parts: Uint8Array[] = [];
  const offsets: number[] = [];
  let end = 0;
  for (const [i, array] of arrays.entries()) {
    const offset = Math.ceil(end / 8) * 8 + 1 + 2 * (i % 4);
    const bytes = new Uint8Array(native().bytes(array.idFor('the test')));
    parts.push(new Uint8Array(offset - end), bytes);
    offsets.push(offset);
    end = offset + bytes.length;
  }
  const folder = mkdtempSync(join(tmpdir(), 'unaligned-'));
  try {
    const path = join(folder, 'file');
    writeFileSync(path, Buffer.concat(parts));
    using file = mapFile(path);
    return arrays.map((array, i) => file.array(offsets[i], array.shape, array.dtype));
  } finally {
    rmSync(folder, { recursive: true });
  }
}
