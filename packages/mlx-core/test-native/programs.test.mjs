/**
 * The test programs of native/test. Each of their tests runs in a process of its own: MLX's first use is part of what
 * they test, the kernels choose their instruction set once in a process, and a crash ends one test only.
 *
 * NATIVE_TEST_FOLDER takes the programs from where another build put them, NATIVE_TEST_EMULATOR runs them by qemu's
 * user mode for arm64; NATIVE_TEST_SCALE and NATIVE_TEST_SEED are for those that draw random cases.
 */
import { execFile, execFileSync } from 'node:child_process';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { testPrograms } from '../scripts/build-native-tests.mjs';

const {
  NATIVE_TEST_FOLDER: folder,
  NATIVE_TEST_EMULATOR: emulator,
  NATIVE_TEST_SCALE: scale,
  NATIVE_TEST_SEED: seed,
} = process.env;
const arch = emulator ? 'arm64' : process.arch;
const options = [...(scale ? ['--scale', scale] : []), ...(seed ? ['--seed', seed] : [])];
const levels =
  arch === 'x64'
    ? ['baseline', 'avx2', 'avx2vnni', 'avx512', 'avx512vnni']
    : ['baseline', 'neon', 'neondotprod'];
const kernelPrograms = ['attention_test', 'matmul_test', 'quantized_matmul_test', 'rows_test'];
const skipped = 77;

/** The CPU that qemu plays: one without dot products of bytes unless they are asked for. */
function cpuFor(/** @type {string} */ simd) {
  return simd === 'neondotprod' ? 'max' : 'cortex-a53';
}

for (const { name, path } of testPrograms(folder)) {
  describe(name, () => {
    const [program, ...before] = emulator ? [emulator, path] : [path];
    const tests = execFileSync(program, [...before, '--list'], { encoding: 'utf8' });
    for (const simd of kernelPrograms.includes(name) ? levels : ['']) {
      test.for(tests.trim().split('\n'))(
        simd ? `%s (${simd})` : '%s',
        async (testName, context) => {
          const args = [...before, ...options, testName];
          const { code, output } = await outcome(program, args, simd, cpuFor(simd));
          // qemu has a CPU for every level.
          if (code === skipped && !(emulator && simd)) context.skip(output.trim());
          expect({ code, output }).toEqual({ code: 0, output: `passed: ${testName}\n` });
        },
      );
    }
  });
}

describe.runIf(emulator)('the level that is chosen by itself', () => {
  test.for(['neon', 'neondotprod'])('%s, on a CPU that has no better', async (level) => {
    const { path } = testPrograms(folder).find(({ name }) => name === 'rows_test') ?? {};
    const args = [path ?? '', 'softmax'];
    const { code, output } = await outcome(emulator ?? '', args, 'unknown', cpuFor(level));
    expect(code).toBe(skipped);
    expect(output).toContain(`is unknown here; using ${level}\n`);
  });
});

async function outcome(
  /** @type {string} */ program,
  /** @type {string[]} */ args,
  /** @type {string} */ simd,
  /** @type {string} */ cpu,
) {
  const env = { ...process.env, MLX_RUNNERS_SIMD: simd, QEMU_CPU: cpu };
  // A program that hangs is ended, and the signal shows it.
  const settings = { env, timeout: scale ? 0 : 50_000 };
  try {
    const { stdout, stderr } = await promisify(execFile)(program, args, settings);
    return { code: 0, output: stdout + stderr };
  } catch (error) {
    const { code, signal, stdout = '', stderr = '' } = /** @type {any} */ (error);
    return { code: code ?? signal, output: stdout + stderr };
  }
}
