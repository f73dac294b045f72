import { dirname } from 'node:path';
import { createNodesFromFiles } from '@nx/devkit';
import { runnerTargets } from './runner-targets.mjs';

export { postTasksExecution } from './task-results.mjs';

/**
 * Every folder with a `runner.json` gets a runner's targets: adding a runner costs one folder and no edit elsewhere.
 *
 * @type {import('@nx/devkit').CreateNodes}
 */
export const createNodes = [
  '**/runner.json',
  (configFiles, options, context) =>
    createNodesFromFiles(
      (configFile) => {
        const root = dirname(configFile);
        return { projects: { [root]: { targets: runnerTargets(root, context.workspaceRoot) } } };
      },
      configFiles.filter(isSource),
      options,
      context,
    ),
];

/** `runner.json` is published with the package, so copies of it also lie in installed and built folders. */
function isSource(/** @type {string} */ file) {
  return !/(^|\/)(node_modules|dist)\//.test(file);
}
