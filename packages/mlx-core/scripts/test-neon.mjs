import { join } from 'node:path';
import { cmakeBuild } from './cmake-build.mjs';
import { fetchMlx } from './fetch-mlx.mjs';
import { qemuArm64 } from './qemu.mjs';
import { nativeTestOptions, runNativeTests } from './run-native-tests.mjs';
import { isMainModule, runScript, ToolError } from './tool-error.mjs';
import { useZig } from './zig.mjs';

const packageRoot = join(import.meta.dirname, '..');

/**
 * Builds the tests that need no libmlx for Linux on arm64 and runs them under qemu.
 *
 * @param {ReturnType<typeof nativeTestOptions>} options
 */
async function testNeon({ scale, seed }) {
  // First, since it may fail and the build takes minutes.
  const emulator = qemuArm64();
  useZig();
  const folder = join(packageRoot, 'build/cmake-linux-arm64');
  const { mlxRoot, openblasRoot = '' } = fetchMlx('linux-arm64');
  await cmakeBuild({
    folder,
    definitions: {
      MLX_ROOT: mlxRoot,
      OPENBLAS_ROOT: openblasRoot,
      NATIVE_OUTPUT_DIR: join(folder, 'output'),
      CMAKE_TOOLCHAIN_FILE: join(packageRoot, 'native/test/linux-arm64.cmake'),
    },
    target: 'native_tests_standalone',
    logFile: `${folder}.log`,
  });
  console.log(`\nUnder ${emulator}, from --seed ${seed}`);
  if (!runNativeTests({ folder, scale, seed, emulator })) {
    throw new ToolError('Tests fail on arm64; see above.');
  }
}

if (isMainModule(import.meta.url)) {
  await runScript(() => testNeon(nativeTestOptions('1')));
}
