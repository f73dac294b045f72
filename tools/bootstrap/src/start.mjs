import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
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
  const built = runNx([...targets, '--output-style=stream', '--skip-sync'], { stdout: 2 });
  if (built !== 0) return built;
  const { status } = spawnSync(
    process.execPath,
    [join(workspaceRoot, 'runners/whisper/dist/cli.js'), ...(args.length > 0 ? args : [SAMPLE])],
    // npm starts scripts in the workspace; relative paths are those of the folder the user is in.
    { stdio: 'inherit', cwd: process.env.INIT_CWD ?? process.cwd() },
  );
  return status ?? 1;
}
