// Makes a folder with a runner's command line that runs wherever it is moved to, with nothing but Node around it.
// Run in the runner's folder:
//
//   node ../../tools/packaging/bundle.mjs [--platform linux-x64] [--out FOLDER]
import { join, resolve } from 'node:path';
import { scriptOptions } from '../../packages/mlx-core/scripts/script-options.mjs';
import { runScript } from '../../packages/mlx-core/scripts/tool-error.mjs';
import { hostPlatform } from '../../packages/mlx-core/scripts/wheels.mjs';
import { bundleRunner } from './src/bundle.mjs';

await runScript(async () => {
  const { platform, out } = scriptOptions('[--platform linux-x64] [--out FOLDER]', {
    platform: { type: 'string', default: hostPlatform },
    out: { type: 'string' },
  });
  const runnerRoot = process.cwd();
  // Nx starts tasks in the project's folder, and says in which one the user is.
  const folder = out ? resolve(process.env.INIT_CWD ?? '.', out) : join(runnerRoot, 'bundle');
  await bundleRunner(runnerRoot, folder, platform);
  console.log(folder);
});
