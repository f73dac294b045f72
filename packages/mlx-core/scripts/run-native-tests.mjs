import { spawnSync } from 'node:child_process';
import { join } from 'node:path';

/**
 * Runs test programs of native/test.
 *
 * @param {object} options
 * @param {string} options.folder where `buildNativeTests` built them
 * @param {string} options.scale how many times as many random cases as a test has by itself
 * @param {string} options.seed that of the first case
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
      NATIVE_TEST_SCALE: scale,
      NATIVE_TEST_SEED: seed,
      ...(emulator && { NATIVE_TEST_EMULATOR: emulator }),
    },
  });
  return status === 0;
}

/** A seed that no run before has had. */
export function newSeed() {
  return String(Date.now() % 1_000_000_000);
}
