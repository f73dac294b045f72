// Packs every published package and native libraries into tarballs, and prints their names and sizes in the order in
// which they are published.
//
//   node pack.mjs [--platform linux-x64 …] [--repository git+https://…] [--out FOLDER]
import { join, resolve } from 'node:path';
import { scriptOptions } from '../../packages/mlx-core/scripts/script-options.mjs';
import { runScript } from '../../packages/mlx-core/scripts/tool-error.mjs';
import { hostPlatform } from '../../packages/mlx-core/scripts/wheels.mjs';
import { packAll } from './src/pack.mjs';

await runScript(async () => {
  const { platform, repository, out } = scriptOptions(
    '[--platform linux-x64 …] [--repository git+https://…] [--out FOLDER]',
    {
      platform: { type: 'string', multiple: true, default: [hostPlatform] },
      repository: { type: 'string' },
      out: { type: 'string' },
    },
  );
  // Nx starts tasks in the project's folder, and says in which one the user is.
  const folder = out
    ? resolve(process.env.INIT_CWD ?? '.', out)
    : join(import.meta.dirname, 'dist');
  for (const { filename, size } of await packAll(folder, { platforms: platform, repository })) {
    console.log(`${String(size).padStart(10)} ${filename}`);
  }
  console.log(folder);
});
