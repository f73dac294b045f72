import { basename } from 'node:path';
import { defineConfig } from 'vitest/config';

/**
 * The one test configuration of the workspace: every project's vitest.config.mjs calls it with its own folder.
 * `vitest run --mode test-model` runs the tests that need real weights (`test-model/`) instead of those in `test/`;
 * `--mode test-native` runs mlx-core's C++ tests (`test-native/`);
 * `--mode fuzz` runs `test/fuzz.test.ts` alone, with as many cases as FUZZ_CASES says (see packages/test-fixtures).
 */
export function testConfig(projectRoot, test = {}) {
  return defineConfig(({ mode }) => suiteConfig(projectRoot, mode, test));
}

function suiteConfig(projectRoot, mode, test) {
  const suite = SUITES[mode] ?? SUITES.test;
  return {
    root: projectRoot,
    // Tests run against the sources of the workspace's packages, so that no build stands between edit and test.
    resolve: { conditions: ['@mlx-runners/source'] },
    ssr: { resolve: { conditions: ['@mlx-runners/source', 'node', 'import', 'default'] } },
    // Node 20 has no `using`.
    oxc: { target: 'es2022' },
    test: {
      name: basename(projectRoot),
      include: [suite.include],
      // Real processes: a native addon that crashes takes one test file along, not the whole run.
      pool: 'forks',
      // In this order: the JSON report, which `npm test` sums up, takes the reasons along.
      reporters: ['default', skipReasons, 'json'],
      outputFile: { json: suite.report },
      testTimeout: suite.timeout,
      hookTimeout: suite.timeout,
      // Nx asks for colours, also of the programs that tests start and whose output they read.
      env: { FORCE_COLOR: '0', ...suite.env },
      ...test,
    },
  };
}

const SUITES = {
  test: {
    include: 'test/**/*.test.{ts,mjs}',
    report: 'reports/tests.json',
    timeout: 60_000,
  },
  'test-model': {
    include: 'test-model/**/*.test.{ts,mjs}',
    report: 'reports/test-model.json',
    timeout: 60_000,
  },
  'test-native': {
    include: 'test-native/**/*.test.{ts,mjs}',
    report: 'reports/test-native.json',
    // Random cases may be many; each program has a limit of its own.
    timeout: 0,
  },
  fuzz: {
    include: 'test/fuzz.test.ts',
    report: 'reports/fuzz.json',
    // A watchdog bounds each case.
    timeout: 0,
    env: { FUZZ_CASES: process.env.FUZZ_CASES ?? '100000' },
  },
};

/** Puts why a test was skipped (`context.skip('no weights')`) into the JSON report, which lacks it. */
const skipReasons = {
  onTestCaseResult(test) {
    const { state, note } = test.result();
    if (state === 'skipped' && note) test.meta().skipReason = note;
  },
};
