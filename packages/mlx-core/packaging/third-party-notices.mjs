import { readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { pinnedWheel, unpackedWheel } from '../scripts/wheels.mjs';

/**
 * The licences of everything that is compiled into or shipped beside the addon: the texts that came with it.
 *
 * @param {string} platform
 * @returns {string} plain text
 */
export function nativeNotices(platform) {
  const openblas = pinnedWheel('openblas', platform);
  return [
    notice('MLX (libmlx)', wheelLicense('mlx', platform)),
    notice('{fmt}, JSON for Modern C++ and gguf-tools (parts of libmlx)', read('mlx-parts.txt')),
    notice(
      'PocketFFT (part of libmlx)',
      headerComment(mlxFile(platform, 'mlx/3rdparty/pocketfft.h')),
    ),
    ...(platform.startsWith('darwin')
      ? [notice('metal-cpp (part of libmlx)', mlxFile(platform, 'metal_cpp/LICENSE.txt'))]
      : []),
    ...(openblas
      ? [
          notice(
            `OpenBLAS and LAPACK with the GCC runtime library (libscipy_openblas.so, from ${openblas.package} ${openblas.version})`,
            wheelLicense('openblas', platform),
          ),
        ]
      : []),
    notice('node-addon-api (part of mlx_core.node)', nodeAddonApiLicense()),
  ].join('\n');
}

/** One entry of a notices file. */
export function notice(/** @type {string} */ title, /** @type {string} */ text) {
  return `${'='.repeat(80)}\n${title}\n${'='.repeat(80)}\n\n${text.trim()}\n`;
}

function wheelLicense(/** @type {string} */ part, /** @type {string} */ platform) {
  const root = unpackedWheel(part, platform);
  const info = readdirSync(root).find((name) => name.endsWith('.dist-info'));
  const folder = join(root, String(info), 'licenses');
  return readdirSync(folder)
    .map((file) => readFileSync(join(folder, file), 'utf8'))
    .join('\n');
}

function mlxFile(/** @type {string} */ platform, /** @type {string} */ path) {
  return readFileSync(join(unpackedWheel('mlx', platform), 'mlx/include', path), 'utf8');
}

function headerComment(/** @type {string} */ source) {
  return source.slice(source.indexOf('/*') + 2, source.indexOf('*/'));
}

function read(/** @type {string} */ file) {
  return readFileSync(join(import.meta.dirname, 'notices', file), 'utf8');
}

function nodeAddonApiLicense() {
  const { resolve } = createRequire(import.meta.url);
  return readFileSync(join(dirname(resolve('node-addon-api')), 'LICENSE.md'), 'utf8');
}
