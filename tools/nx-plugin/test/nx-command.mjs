import { spawnSync } from 'node:child_process';

/** Runs a workspace's own Nx and gives what came of it. */
export function nx(/** @type {string} */ workspace, /** @type {string[]} */ ...args) {
  return runNode(workspace, 'node_modules/nx/dist/bin/nx.js', ...args);
}

/** Runs a script as a user would from the workspace's folder. */
export function runNode(/** @type {string} */ workspace, /** @type {string[]} */ ...args) {
  const env = Object.entries(process.env).filter(([name]) => !OUTER_RUN.test(name));
  const { status, stdout, stderr } = spawnSync(process.execPath, args, {
    cwd: workspace,
    encoding: 'utf8',
    env: {
      ...Object.fromEntries(env),
      ...{
        INIT_CWD: workspace,
        NX_DAEMON: 'false',
        NX_TUI: 'false',
        NO_COLOR: '1',
        FORCE_COLOR: '0',
      },
    },
  });
  return { status, stdout, stderr, output: `${stdout}${stderr}` };
}

/** What the Nx and the vitest around this test leave in the environment. */
const OUTER_RUN = /^(NX_|VITEST|MLX_RUNNERS_TASK_RESULTS$|LERNA_|NODE_ENV$|CI$)/;
