/**
 * The test programs of native/test. Each of their tests runs in a process of its own: MLX's first use is part of what
 * they test, the kernels choose their instruction set once in a process, and a crash ends one test only.
 *
 * MLX_RUNNERS_SANITIZE takes the programs that were built with these sanitizers; NATIVE_TEST_CASES and
 * NATIVE_TEST_SEED are for those that draw random cases.
 */
import { execFile, execFileSync } from 'node:child_process';
import { arch } from 'node:process';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { testPrograms } from '../scripts/build-native-tests.mjs';

const { NATIVE_TEST_CASES: cases, NATIVE_TEST_SEED: seed } = process.env;
const options = [...(cases ? ['--cases', cases] : []), ...(seed ? ['--seed', seed] : [])];
const levels = arch === 'x64' ? ['baseline', 'avx2', 'avx512', 'avx512vnni'] : ['baseline', 'neon'];
const kernelPrograms = ['attention_test', 'matmul_test', 'quantized_matmul_test', 'rows_test'];
const skipped = 77;

for (const { name, path } of testPrograms()) {
  describe(name, () => {
    const tests = execFileSync(path, ['--list'], { encoding: 'utf8' }).trim().split('\n');
    for (const simd of kernelPrograms.includes(name) ? levels : ['']) {
      test.for(tests)(simd ? `%s (${simd})` : '%s', async (testName, context) => {
        const { code, output } = await outcome(path, [...options, testName], simd);
        if (code === skipped) context.skip(output.trim());
        expect({ code, output }).toEqual({ code: 0, output: `passed: ${testName}\n` });
      });
    }
  });
}

async function outcome(
  /** @type {string} */ path,
  /** @type {string[]} */ args,
  /** @type {string} */ simd,
) {
  // A program that hangs is ended, and the signal shows it.
  const settings = { env: { ...process.env, MLX_RUNNERS_SIMD: simd }, timeout: cases ? 0 : 50_000 };
  try {
    const { stdout, stderr } = await promisify(execFile)(path, args, settings);
    return { code: 0, output: stdout + stderr };
  } catch (error) {
    const { code, signal, stdout = '', stderr = '' } = /** @type {any} */ (error);
    return { code: code ?? signal, output: stdout + stderr };
  }
}
