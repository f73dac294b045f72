import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { buildNativeTests } from './build-native-tests.mjs';
import { scriptOptions } from './script-options.mjs';
import { isMainModule, runScript, ToolError } from './tool-error.mjs';

/**
 * ThreadSanitizer doesn't see the atomics inside of libmlx and would take its locks for none: there, only what is
 * without it, and fewer cases, since it is slow. The others check our own code beside an ordinary libmlx.
 */
const RUNS = [
  { sanitizers: 'address,undefined,float-cast-overflow', standalone: false, share: 1 },
  { sanitizers: 'thread', standalone: true, share: 1 / 20 },
];

/** Builds the test programs with sanitizers and runs their tests with many random cases. */
async function testSanitized(/** @type {number} */ cases, /** @type {string} */ seed) {
  for (const { sanitizers, standalone, share } of RUNS) {
    console.log(`\n-fsanitize=${sanitizers}, from --seed ${seed}`);
    await buildNativeTests({ sanitizers, standalone });
    const { status } = spawnSync('npx', ['vitest', 'run', '--mode', 'test-native'], {
      cwd: join(import.meta.dirname, '..'),
      stdio: 'inherit',
      env: {
        ...process.env,
        MLX_RUNNERS_SANITIZE: sanitizers,
        NATIVE_TEST_CASES: String(Math.ceil(cases * share)),
        NATIVE_TEST_SEED: seed,
      },
    });
    if (status !== 0) throw new ToolError(`Tests fail with -fsanitize=${sanitizers}; see above.`);
  }
}

if (isMainModule(import.meta.url)) {
  await runScript(() => {
    const { cases, seed } = scriptOptions('[--cases 3000] [--seed S]', {
      cases: { type: 'string', default: '3000' },
      seed: { type: 'string', default: String(Date.now() % 1_000_000_000) },
    });
    return testSanitized(Number(cases), seed);
  });
}
