/**
 * The platforms that a package with the native library is published for, by the name that Node gives them
 * (`process.platform`-`process.arch`). `os`, `cpu` and `libc` are npm's fields, by which it installs the right one.
 *
 * @typedef {{ os: string, cpu: string, libc?: string, title: string, license: string }} Platform
 *
 * @type {Record<string, Platform>}
 */
export const PLATFORMS = {
  'darwin-arm64': {
    ...{ os: 'darwin', cpu: 'arm64' },
    title: 'macOS 14 or newer on Apple silicon',
    license: 'MIT AND BSD-3-Clause AND Apache-2.0',
  },
  'linux-arm64': linux('arm64'),
  'linux-x64': linux('x64'),
};

/** Linux packages carry OpenBLAS with LAPACK and the Fortran runtime that it was linked with. */
function linux(/** @type {string} */ cpu) {
  return {
    ...{ os: 'linux', cpu, libc: 'glibc' },
    title: `Linux on ${cpu} with glibc 2.35 or newer`,
    license:
      'MIT AND BSD-3-Clause AND BSD-3-Clause-Attribution AND GPL-3.0-only WITH GCC-exception-3.1',
  };
}

export function platformPackageName(/** @type {string} */ platform) {
  return `@mlx-runners/mlx-core-${platform}`;
}
