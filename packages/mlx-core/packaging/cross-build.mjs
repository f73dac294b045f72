import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { cmakeBuild } from '../scripts/cmake-build.mjs';
import { fetchMlx } from '../scripts/fetch-mlx.mjs';
import { useZig } from '../scripts/zig.mjs';

const buildFolder = join(import.meta.dirname, '../build');

/** The platforms that the addon can be built for on another system. */
export const CROSS_PLATFORMS = ['darwin-arm64'];

/**
 * Builds the addon for another platform, from scratch: what is published depends on nothing that was there before.
 *
 * @param {string} platform one of CROSS_PLATFORMS
 * @returns {Promise<string>} the folder with the addon and what libmlx consists of
 */
export async function crossBuild(platform) {
  const folder = join(buildFolder, `cmake-${platform}`);
  const output = join(folder, 'output');
  rmSync(folder, { recursive: true, force: true });
  useZig();
  await cmakeBuild({
    folder,
    definitions: {
      MLX_ROOT: fetchMlx(platform).mlxRoot,
      NATIVE_OUTPUT_DIR: output,
      CMAKE_TOOLCHAIN_FILE: join(import.meta.dirname, platform, 'toolchain.cmake'),
    },
    target: 'mlx_core',
    logFile: join(buildFolder, `native-build-${platform}.log`),
  });
  return output;
}
