import { join } from 'node:path';
import { writePlatformPackage } from '../../../packages/mlx-core/packaging/platform-package.mjs';
import { platformPackageName } from '../../../packages/mlx-core/packaging/platforms.mjs';
import { npm } from './npm.mjs';
import { publishedPackages } from './published-packages.mjs';
import { replacedFolder } from './replaced-folder.mjs';
import { stagePackage } from './stage.mjs';

/**
 * One packed package, as `npm pack --json` describes it.
 *
 * @typedef {{
 *   name: string, version: string, filename: string, size: number, unpackedSize: number,
 *   files: { path: string, size: number, mode: number }[],
 * }} Packed
 */

/**
 * Packs every published package, and the native libraries of platforms, in the order in which they are published:
 * each after what it depends on.
 *
 * @param {string} folder replaced by one with `staged/`, what was packed, and the tarballs
 * @param {{ platforms: string[], repository?: string }} options
 * @returns {Promise<Packed[]>}
 */
export async function packAll(folder, { platforms, repository }) {
  return await replacedFolder(folder, async (partial) => {
    /** @type {string[]} */
    const staged = [];
    const stageAs = (/** @type {string} */ name) => {
      staged.push(join('staged', name));
      return join(partial, 'staged', name);
    };
    for (const platform of platforms) {
      await writePlatformPackage(platform, stageAs(platformPackageName(platform)), { repository });
    }
    for (const published of publishedPackages()) {
      stagePackage(published, stageAs(published.name), { repository });
    }
    // `./`, or npm would take the folders for names in a registry.
    const folders = staged.map((path) => `./${path}`);
    const output = npm(['pack', '--json', '--ignore-scripts', ...folders], { cwd: partial });
    /** @type {Packed[]} */
    const packed = Object.values(JSON.parse(output));
    return packed;
  });
}
