import { dirname } from 'node:path';
import { createNodesFromFiles } from '@nx/devkit';
import { runnerTargets } from './runner-targets.mjs';

export { postTasksExecution } from './task-results.mjs';

const FUZZ_TEST = 'test/fuzz.test.ts';

/**
 * Every folder with a `runner.json` gets a runner's targets: adding a runner costs one folder and no edit elsewhere.
 * Every folder with a `test/fuzz.test.ts` gets the target `fuzz`.
 *
 * @type {import('@nx/devkit').CreateNodes}
 */
export const createNodes = [
  `**/{runner.json,${FUZZ_TEST}}`,
  (configFiles, options, context) =>
    createNodesFromFiles(
      (configFile) => {
        if (configFile.endsWith(FUZZ_TEST)) {
          const root = dirname(dirname(configFile));
          return { projects: { [root]: { targets: { fuzz: fuzzTarget() } } } };
        }
        const root = dirname(configFile);
        return { projects: { [root]: { targets: runnerTargets(root, context.workspaceRoot) } } };
      },
      configFiles.filter(isSource),
      options,
      context,
    ),
];

/** @returns {import('@nx/devkit').TargetConfiguration} */
function fuzzTarget() {
  return {
    executor: 'nx:run-commands',
    options: { command: 'vitest run --mode fuzz', cwd: '{projectRoot}' },
    cache: false,
    dependsOn: ['build-native', '^build-native'],
    metadata: {
      technologies: ['vitest'],
      description:
        'Reads damaged files: 100,000 in all projects together, or FUZZ_CASES, drawn from FUZZ_SEED.',
    },
  };
}

/** `runner.json` is published with the package, so copies of it also lie in installed and built folders. */
function isSource(/** @type {string} */ file) {
  return !/(^|\/)(node_modules|dist|bundle)\//.test(file);
}
