import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { positiveNumber, scriptOptions, wholeNumber } from './script-options.mjs';

/**
 * Runs test programs of native/test.
 *
 * @param {object} options
 * @param {string} options.folder where `buildNativeTests` built them
 * @param {number} options.scale how many times as many random cases as a test has by itself
 * @param {number} options.seed that of the first case
 * @param {string} [options.emulator] the program that runs them, of qemu's user mode for arm64
 * @returns {boolean} whether all passed
 */
export function runNativeTests({ folder, scale, seed, emulator }) {
  const { status } = spawnSync('npx', ['vitest', 'run', '--mode', 'test-native'], {
    cwd: join(import.meta.dirname, '..'),
    stdio: 'inherit',
    env: {
      ...process.env,
      NATIVE_TEST_FOLDER: folder,
      NATIVE_TEST_SCALE: String(scale),
      NATIVE_TEST_SEED: String(seed),
      ...(emulator && { NATIVE_TEST_EMULATOR: emulator }),
    },
  });
  return status === 0;
}

/**
 * The options of a script that runs them, from its command line.
 *
 * @param {string} defaultScale
 * @returns {{ scale: number, seed: number }} unless given, `seed` is one that no run before has had
 */
export function nativeTestOptions(defaultScale) {
  const { scale, seed } = scriptOptions(`[--scale ${defaultScale}] [--seed S]`, {
    scale: { type: 'string', default: defaultScale },
    seed: { type: 'string', default: String(Date.now() % 1_000_000_000) },
  });
  return { scale: positiveNumber('--scale', scale), seed: wholeNumber('--seed', seed) };
}
