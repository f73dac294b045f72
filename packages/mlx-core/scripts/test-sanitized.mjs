import { buildNativeTests } from './build-native-tests.mjs';
import { nativeTestOptions, runNativeTests } from './run-native-tests.mjs';
import { isMainModule, runScript, ToolError } from './tool-error.mjs';

/**
 * ThreadSanitizer doesn't see the atomics inside of libmlx and would take its locks for none: there, only what is
 * without it, and fewer cases, since it is slow. The others check our own code beside an ordinary libmlx.
 */
const RUNS = [
  { sanitizers: 'address,undefined,float-cast-overflow', standalone: false, share: 1 },
  { sanitizers: 'thread', standalone: true, share: 1 / 5 },
];

/**
 * Builds the test programs with sanitizers and runs their tests, all before it says which fail.
 *
 * @param {ReturnType<typeof nativeTestOptions>} options
 */
async function testSanitized({ scale, seed }) {
  const results = [];
  for (const { sanitizers, standalone, share } of RUNS) {
    console.log(`\n-fsanitize=${sanitizers}, from --seed ${seed}`);
    const started = Date.now();
    const folder = await buildNativeTests({ sanitizers, standalone });
    const passed = runNativeTests({ folder, scale: scale * share, seed });
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
