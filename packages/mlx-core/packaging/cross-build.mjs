import { chmodSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { cmakeBuild } from '../scripts/cmake-build.mjs';
import { fetchMlx } from '../scripts/fetch-mlx.mjs';
import { unpackedWheel } from '../scripts/wheels.mjs';

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
  process.env.ZIG = zig();
  // With the build, so that nothing is left behind in the user's cache folder.
  process.env.ZIG_GLOBAL_CACHE_DIR = join(buildFolder, 'zig-cache');
  process.env.ZIG_LOCAL_CACHE_DIR = process.env.ZIG_GLOBAL_CACHE_DIR;
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

function zig() {
  const program = join(unpackedWheel('ziglang'), 'ziglang/zig');
  // Python's zipfile forgets file modes.
  chmodSync(program, 0o755);
  return program;
}
