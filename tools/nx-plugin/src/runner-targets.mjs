import { existsSync } from 'node:fs';
import { join, posix } from 'node:path';

/**
 * The targets of a runner. One entry is one target:
 * - `command`: what runs in the runner's folder, with the caller's further arguments behind it; `{root}` is the
 *   workspace;
 * - `description`: what `nx show project` says about it;
 * - `example`: arguments worth trying;
 * - `needs`: a file or folder without which the runner does not have this target;
 * - `dependsOn`: what is built first, the command line and the native addon unless said otherwise.
 *
 * `build`, `typecheck` and `test` are inferred from the tsconfig and vitest files by Nx's own plugins.
 *
 * @typedef {{ command: string, description: string, example: string[], needs?: string, dependsOn?: string[] }} RunnerTarget
 */

const BUILT = ['build', '^build-native'];

/** @type {Record<string, RunnerTarget>} */
const RUNNER_TARGETS = {
  run: {
    command: 'node dist/cli.js',
    description: 'Runs the command line. Relative paths are those of the folder you are in.',
    example: ['--help'],
  },
  bundle: {
    command: 'node {root}/tools/packaging/bundle.mjs',
    description: 'Makes the folder bundle/, which runs wherever it is moved to.',
    example: ['--out', 'FOLDER'],
  },
  golden: {
    command: 'node dist/cli.js golden',
    description: 'Compares the model with the reference tensors of fixture files.',
    example: ['FILE.safetensors'],
  },
  bench: {
    command: 'node dist/cli.js bench',
    description: 'Measures the model on this machine.',
    example: ['--help'],
  },
  'test-model': {
    command: 'vitest run --mode test-model',
    description: 'Tests with the real weights; tests whose weights cannot be had are skipped.',
    example: [],
    needs: 'test-model',
  },
  export: {
    command: 'node dist/cli.js export',
    description: 'Exports the model to a folder of programs and weights.',
    example: ['--out', 'FOLDER'],
    needs: 'src/export.ts',
  },
  'export-check': {
    command: 'node dist/cli.js export-check',
    description: 'Exports, reloads in a fresh process and checks results and budgets.',
    example: [],
    needs: 'src/export.ts',
  },
  inspect: {
    command: 'node dist/cli.js inspect',
    description: 'Shows what is in an exported folder.',
    example: ['FOLDER'],
    needs: 'src/export.ts',
  },
};

/**
 * @param {string} root the runner's folder, relative to the workspace
 * @param {string} workspaceRoot absolute
 * @returns {Record<string, import('@nx/devkit').TargetConfiguration>}
 */
export function runnerTargets(root, workspaceRoot) {
  const present = Object.entries(RUNNER_TARGETS).filter(
    ([, { needs }]) => needs === undefined || existsSync(join(workspaceRoot, root, needs)),
  );
  return Object.fromEntries(
    present.map(([name, target]) => [name, configuration(name, target, root)]),
  );
}

/** None is cached: each reads weights or audio that Nx does not see, or is asked for its side effects. */
function configuration(
  /** @type {string} */ name,
  /** @type {RunnerTarget} */ { command, description, example, dependsOn = BUILT },
  /** @type {string} */ root,
) {
  const project = root.slice(root.lastIndexOf('/') + 1);
  return {
    executor: 'nx:run-commands',
    options: {
      command: command.replace('{root}', posix.relative(root, '.')),
      cwd: '{projectRoot}',
    },
    cache: false,
    dependsOn,
    metadata: {
      technologies: ['mlx'],
      description,
      help: { command: `npx nx run ${project}:${name} -- --help`, example: { args: example } },
    },
  };
}
