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
 * @returns {number} the exit code
 */
export function start(args) {
  prepareWorkspace();
  const targets = ['run-many', '--targets=build,build-native', '--projects=whisper,mlx-core'];
  // A long build shows how far it is; otherwise Nx would repeat what builds in its cache once printed.
  const style = isNativeBuildCurrent() ? 'static-failures-only' : 'stream';
  const built = runNx([...targets, `--output-style=${style}`, '--skip-sync'], { stdout: 2 });
  if (built !== 0) return built;
  const { status } = spawnSync(
    process.execPath,
    [join(workspaceRoot, 'runners/whisper/dist/cli.js'), ...(args.length > 0 ? args : [SAMPLE])],
    // npm starts scripts in the workspace; relative paths are those of the folder the user is in.
    { stdio: 'inherit', cwd: process.env.INIT_CWD ?? process.cwd() },
  );
  return status ?? 1;
}
