import { copyFileSync, mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { buildStamp, nativeFolder, stampFile } from './build-stamp.mjs';
import { cmakeBuild } from './cmake-build.mjs';
import { fetchMlx } from './fetch-mlx.mjs';
import { scriptOptions } from './script-options.mjs';
import { isMainModule, runScript } from './tool-error.mjs';

const buildFolder = join(import.meta.dirname, '../build');
/**
 * Where CMake links to. Not `build/native`: Nx restores that from its cache with new file times, and CMake would
 * take an older library for up to date.
 */
const linkFolder = join(buildFolder, 'cmake/output');

/** How `build/cmake` is built, whatever the target. */
export function nativeBuild(/** @type {string} */ target) {
  const { mlxRoot, openblasRoot } = fetchMlx();
  return {
    folder: join(buildFolder, 'cmake'),
    definitions: {
      MLX_ROOT: mlxRoot,
      ...(openblasRoot && { OPENBLAS_ROOT: openblasRoot }),
      NATIVE_OUTPUT_DIR: linkFolder,
    },
    target,
    logFile: join(buildFolder, 'native-build.log'),
  };
}

/** Builds the native addon into `build/native`, compiling only what changed since the last build. */
export async function buildNative() {
  const started = Date.now();
  // Read before compiling: a file edited meanwhile makes the result out of date, not current.
  const stamp = buildStamp();
  await cmakeBuild({ ...nativeBuild('mlx_core'), publish: () => publish(stamp) });
  const seconds = Math.round((Date.now() - started) / 1000);
  // Nx shows this again where it takes the build from its cache, which clones may share.
  const folder = relative(join(import.meta.dirname, '../../..'), nativeFolder);
  console.log(`Native addon built in ${seconds} s: ${folder}`);
}

/** Brings what was linked to `build/native`, each file by a rename, and says last that it is complete. */
function publish(/** @type {string} */ stamp) {
  mkdirSync(nativeFolder, { recursive: true });
  rmSync(stampFile, { force: true });
  const files = readdirSync(linkFolder);
  for (const stale of readdirSync(nativeFolder).filter((file) => !files.includes(file))) {
    rmSync(join(nativeFolder, stale), { recursive: true });
  }
  for (const file of files) {
    // Renamed into place: a process that has the old library loaded keeps it.
    copyFileSync(join(linkFolder, file), join(nativeFolder, `${file}.part`));
    renameSync(join(nativeFolder, `${file}.part`), join(nativeFolder, file));
  }
  writeFileSync(stampFile, stamp);
}

if (isMainModule(import.meta.url)) {
  await runScript(() => {
    scriptOptions('none', {});
    return buildNative();
  });
}
