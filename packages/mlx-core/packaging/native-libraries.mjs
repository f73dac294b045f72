import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { nativeFolder, stampFile } from '../scripts/build-stamp.mjs';
import { ToolError } from '../scripts/tool-error.mjs';
import { hostPlatform } from '../scripts/wheels.mjs';
import { checkLibraries } from './check-libraries.mjs';
import { CROSS_PLATFORMS, crossBuild } from './cross-build.mjs';
import { PLATFORMS } from './platforms.mjs';

/** The addon and what has to lie beside it, by the system that it is for. */
const FILES = {
  darwin: [/^libmlx\.dylib$/, /^mlx\.metallib$/, /^mlx_core\.node$/],
  linux: [
    /^libblas-.*\.so/,
    /^liblapack-.*\.so/,
    /^libmlx\.so$/,
    /^libscipy_openblas\.so$/,
    /^mlx_core\.node$/,
  ],
};

/**
 * The native libraries of a platform, checked to be fit for other machines than this one: the workspace's build, or
 * one made here for another platform.
 *
 * @param {string} [platform] such as `linux-x64`; this machine's unless given
 * @returns {Promise<{ folder: string, files: string[] }>}
 * @throws {ToolError} when they can't be built here, are incomplete or would not load elsewhere
 */
export async function nativeLibraries(platform = hostPlatform) {
  const folder = await builtFolder(platform);
  const os = /** @type {keyof typeof FILES} */ (PLATFORMS[platform].os);
  const files = FILES[os].map((pattern) => onlyMatch(folder, pattern));
  checkLibraries(os, folder, files);
  return { folder, files };
}

function builtFolder(/** @type {string} */ platform) {
  if (!Object.hasOwn(PLATFORMS, platform)) {
    throw new ToolError(
      `There is no package for ${platform}, only for ${Object.keys(PLATFORMS).join(', ')}.`,
    );
  }
  if (platform !== hostPlatform) {
    if (CROSS_PLATFORMS.includes(platform)) return crossBuild(platform);
    throw new ToolError(
      `${platform} is built on such a machine only. From here: ${[hostPlatform, ...CROSS_PLATFORMS].join(', ')}.`,
    );
  }
  if (!existsSync(stampFile)) {
    throw new ToolError(
      `${nativeFolder} holds no finished build: npx nx run mlx-core:build-native`,
    );
  }
  const { mlxDir } = JSON.parse(readFileSync(stampFile, 'utf8'));
  if (mlxDir) {
    throw new ToolError(
      `The native build uses MLX in ${mlxDir}: unset MLX_DIR and build again with the pinned one.`,
    );
  }
  return nativeFolder;
}

function onlyMatch(/** @type {string} */ folder, /** @type {RegExp} */ pattern) {
  const matches = readdirSync(folder).filter((file) => pattern.test(file));
  if (matches.length === 1) return matches[0];
  throw new ToolError(
    `${folder} has ${matches.length} files named ${pattern.source} instead of one.`,
  );
}
