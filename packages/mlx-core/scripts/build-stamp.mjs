import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';

const packageRoot = join(import.meta.dirname, '..');

/** Where the finished native build lies. */
export const nativeFolder = join(packageRoot, 'build/native');

/** The last file that a build writes there: its presence says that the rest is complete, its content what it is of. */
export const stampFile = join(nativeFolder, 'build.json');

/** What a native build depends on: the `native` inputs of the Nx target, which must name the same. */
const INPUTS = ['native', 'scripts', 'CMakeLists.txt', 'native.lock.json'];

/** Identifies what a build made now would be of. */
export function buildStamp() {
  const hash = createHash('sha256');
  for (const file of INPUTS.flatMap((input) => filesBelow(input))) {
    hash
      .update(`${file}\0`)
      .update(readFileSync(join(packageRoot, file)))
      .update('\0');
  }
  return JSON.stringify({
    inputs: hash.digest('hex'),
    platform: `${process.platform}-${process.arch}`,
    mlxDir: process.env.MLX_DIR ?? null,
  });
}

/** Whether the native build in the workspace is of the present sources, so that nothing needs compiling. */
export function isNativeBuildCurrent() {
  return existsSync(stampFile) && readFileSync(stampFile, 'utf8') === buildStamp();
}

function filesBelow(/** @type {string} */ path) {
  const absolute = join(packageRoot, path);
  if (!existsSync(absolute)) return [];
  if (statSync(absolute).isFile()) return [path];
  return readdirSync(absolute, { recursive: true, encoding: 'utf8' })
    .map((file) => `${path}/${file}`)
    .filter((file) => !file.startsWith('native/test/') && !file.endsWith('.md'))
    .filter((file) => statSync(join(packageRoot, file)).isFile())
    .sort();
}
