import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { isNativeBuildCurrent } from '../../../packages/mlx-core/scripts/build-stamp.mjs';
import { prepareWorkspace } from './prepare.mjs';
import { runNx } from './run-nx.mjs';
import { workspaceRoot } from './workspace.mjs';

const SAMPLE = join(workspaceRoot, 'packages/test-fixtures/speech/jfk.wav');

/**
 * Builds what the whisper command line needs and runs it. Stdout is the command line's alone.
 *
 * @param {string[]} args of the command line; the sample when empty
 * @returns {Promise<number>} the exit code
 */
export async function start(args) {
  prepareWorkspace();
  const targets = ['run-many', '--targets=build,build-native', '--projects=whisper,mlx-core'];
  // A long build shows how far it is; the rest takes seconds, and mostly there is nothing to do.
  const [style, output] = isNativeBuildCurrent()
    ? ['static-failures-only', /** @type {const} */ ('on failure')]
    : ['stream', /** @type {const} */ ('stderr')];
  const built = await runNx([...targets, `--output-style=${style}`, '--skip-sync'], { output });
  if (built !== 0) return built;
  const { status } = spawnSync(
    process.execPath,
    [join(workspaceRoot, 'runners/whisper/dist/cli.js'), ...(args.length > 0 ? args : [SAMPLE])],
    // npm starts scripts in the workspace; relative paths are those of the folder the user is in.
    { stdio: 'inherit', cwd: process.env.INIT_CWD ?? process.cwd() },
  );
  return status ?? 1;
}
