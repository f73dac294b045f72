/** Random inputs for kernels, as plain numbers and as the arrays that hold exactly these. */
import { readFileSync } from 'node:fs';
import type { mx, MxArray } from '@mlx-runners/mlx-core';
import { randomNumbers } from '@mlx-runners/test-fixtures';
import { sizeOf, type Plain } from './reference.js';

export type Mx = typeof mx;

/** Numbers in (−range, range), equal on every machine; already rounded to float32. */
export function numbers(shape: readonly number[], seed: number, range = 2): Plain {
  const random = randomNumbers(seed);
  const data = Float64Array.from({ length: sizeOf(shape) }, () =>
    Math.fround((2 * random() - 1) * range),
  );
  return { data, shape };
}

export function arrayOf(mx: Mx, plain: Plain): MxArray {
  return mx.array(Float32Array.from(plain.data), plain.shape);
}

/** The same array by way of a transposed copy, so that it isn't contiguous. */
export function stridedArrayOf(mx: Mx, plain: Plain): MxArray {
  return mx.tidy(() => {
    const swapped = mx.contiguous(mx.swapaxes(arrayOf(mx, plain), -1, -2));
    return mx.swapaxes(swapped, -1, -2);
  });
}

/** [B, H, T, D] as a view of [B, T, H, D], as splitting a projection into heads makes it. */
export function headsViewOf(mx: Mx, plain: Plain): MxArray {
  return mx.tidy(() => {
    const inside = mx.contiguous(mx.transpose(arrayOf(mx, plain), [0, 2, 1, 3]));
    return mx.transpose(inside, [0, 2, 1, 3]);
  });
}

/** As /proc/cpuinfo names them. */
const flags: Record<string, string[]> = {
  avx2: ['avx2', 'fma', 'f16c'],
  avx2vnni: ['avx2', 'fma', 'f16c', 'avx_vnni'],
  avx512: ['avx512f', 'avx512bw', 'avx512dq', 'avx512vl'],
  avx512vnni: ['avx512f', 'avx512bw', 'avx512dq', 'avx512vl', 'avx512_vnni'],
  neondotprod: ['asimddp'],
};

/** Whether this CPU has an instruction set; asked of the system, not of the library under test. */
export function hasInstructionSet(level: string): boolean {
  if (level === 'baseline') return true;
  const isArm = process.arch === 'arm64';
  if (level.startsWith('neon') !== isArm) return false;
  // Every Mac with such a processor has both.
  if (level === 'neon' || process.platform === 'darwin') return isArm;
  const line =
    /^(?:flags|Features)\s*:(.*)$/m.exec(readFileSync('/proc/cpuinfo', 'utf8'))?.[1] ?? '';
  const present = new Set(line.trim().split(' '));
  return flags[level].every((flag) => present.has(flag));
}
