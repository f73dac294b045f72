import { basename } from 'node:path';
import { defineConfig } from 'vitest/config';

/**
 * The one test configuration of the workspace: every project's vitest.config.mjs calls it with its own folder.
 * `vitest run --mode test-model` runs the tests that need real weights (`test-model/`) instead of those in `test/`.
 */
export function testConfig(projectRoot, test = {}) {
  return defineConfig(({ mode }) => suiteConfig(projectRoot, mode === 'test-model', test));
}

function suiteConfig(projectRoot, withModel, test) {
  return {
    root: projectRoot,
    // Tests run against the sources of the workspace's packages, so that no build stands between edit and test.
    resolve: { conditions: ['@mlx-runners/source'] },
    ssr: { resolve: { conditions: ['@mlx-runners/source', 'node', 'import', 'default'] } },
    // Node 20 has no `using`.
    oxc: { target: 'es2022' },
    test: {
      name: basename(projectRoot),
      include: [`${withModel ? 'test-model' : 'test'}/**/*.test.{ts,mjs}`],
      // Real processes: a native addon that crashes takes one test file along, not the whole run.
      pool: 'forks',
      // In this order: the JSON report, which `npm test` sums up, takes the reasons along.
      reporters: ['default', skipReasons, 'json'],
      outputFile: { json: `reports/${withModel ? 'test-model' : 'tests'}.json` },
      testTimeout: 60_000,
      // Nx asks for colours, also of the programs that tests start and whose output they read.
      env: { FORCE_COLOR: '0' },
      ...test,
    },
  };
}

/** Puts why a test was skipped (`context.skip('no weights')`) into the JSON report, which lacks it. */
const skipReasons = {
  onTestCaseResult(test) {
    const { state, note } = test.result();
    if (state === 'skipped' && note) test.meta().skipReason = note;
  },
};
