import { execFileSync, spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { buildNativeTests } from './build-native-tests.mjs';
import { nativeTestOptions, runNativeTests } from './run-native-tests.mjs';
import { isMainModule, runScript, ToolError } from './tool-error.mjs';

/** Cases of the fuzzer in all packages' ordinary tests: see packages/test-fixtures. */
const BASE_CASES = 2500;

/**
 * ThreadSanitizer doesn't see the atomics inside of libmlx and would take its locks for none: there, only what is
 * without it, and fewer cases, since it is slow. The others check our own code beside an ordinary libmlx.
 */
const RUNS = [
  {
    sanitizers: 'address,undefined,float-cast-overflow',
    standalone: false,
    share: 1,
    // clang's runtime has another name, and macOS lets no system's program preload one.
    fuzzed: process.platform === 'linux',
  },
  { sanitizers: 'thread', standalone: true, share: 1 / 5, fuzzed: false },
];

/**
 * The fuzzer of packages/program over the sanitized addon, in a Node that has the sanitizer's runtime before all
 * else. V8 never frees what lives to the end of the process.
 *
 * @param {{ folder: string, scale: number, seed: number }} run
 */
function fuzzPrograms({ folder, scale, seed }) {
  const compiler = process.env.CXX ?? 'c++'; // CMake's choice
  const found = execFileSync(compiler, ['-print-file-name=libasan.so'], { encoding: 'utf8' });
  const { status } = spawnSync('npx', ['vitest', 'run', '--mode', 'fuzz'], {
    cwd: join(import.meta.dirname, '../../program'),
    stdio: 'inherit',
    env: {
      ...process.env,
      MLX_RUNNERS_NATIVE: join(folder, 'output'),
      LD_PRELOAD: found.trim(),
      ASAN_OPTIONS: 'detect_leaks=0',
      FUZZ_CASES: String(Math.ceil(BASE_CASES * scale)),
      FUZZ_SEED: String(seed),
    },
  });
  return status === 0;
}

/**
 * Builds the test programs with sanitizers and runs their tests, all before it says which fail.
 *
 * @param {ReturnType<typeof nativeTestOptions>} options
 */
async function testSanitized({ scale, seed }) {
  const results = [];
  for (const { sanitizers, standalone, share, fuzzed } of RUNS) {
    console.log(`\n-fsanitize=${sanitizers}, from --seed ${seed}`);
    const started = Date.now();
    const folder = await buildNativeTests({ sanitizers, standalone });
    const passed =
      runNativeTests({ folder, scale: scale * share, seed }) &&
      (!fuzzed || fuzzPrograms({ folder, scale, seed }));
    const minutes = ((Date.now() - started) / 60_000).toFixed(1);
    results.push({
      passed,
      line: `${passed ? 'passed' : 'FAILED'}: ${sanitizers} (${minutes} min)`,
    });
  }
  console.log(results.map(({ line }) => line).join('\n'));
  if (results.some(({ passed }) => !passed)) {
    throw new ToolError(`Tests fail under sanitizers; see above. --seed ${seed} brings them back.`);
  }
}

if (isMainModule(import.meta.url)) {
  await runScript(() => testSanitized(nativeTestOptions('5')));
}
