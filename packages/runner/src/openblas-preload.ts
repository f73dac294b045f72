/** Our OpenBLAS for peers that run on MLX, whose wheel for Linux has the reference BLAS on one thread. */
import { existsSync, readdirSync, realpathSync } from 'node:fs';
import { join } from 'node:path';

/**
 * The environment in which a program takes our OpenBLAS for libmlx's BLAS and LAPACK.
 *
 * @param native folder of mlx-core's native build, whose libraries carry the names that libmlx looks for
 * @throws Error when there are none
 */
export function openblasPreload(native: string): { LD_PRELOAD: string } {
  const names = existsSync(native) ? readdirSync(native) : [];
  const libraries = names.filter((name) => /^lib(blas|lapack)\b.*\.so/.test(name));
  if (libraries.length === 0) {
    throw new Error(
      `${native} has no libblas for the peer to run on: build it with "npx nx run mlx-core:build-native".`,
    );
  }
  return { LD_PRELOAD: libraries.map((name) => join(native, name)).join(':') };
}

/**
 * Whether a library is one of those. The dynamic linker only warns of what it can't preload, and then a figure
 * would be another's.
 */
export function isPreloadedOpenblas(native: string, library: string): boolean {
  return library.startsWith(join(realpathSync(native), '/'));
}
