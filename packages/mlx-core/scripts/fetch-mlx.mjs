import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { scriptOptions } from './script-options.mjs';
import { isMainModule, runScript, ToolError } from './tool-error.mjs';
import { hostPlatform, pinnedWheel, unpackedWheel } from './wheels.mjs';

/**
 * Where MLX and OpenBLAS lie, fetched first when need be.
 *
 * - `mlxRoot`: the folder with MLX's `include/`, `lib/` and `share/cmake/MLX/`: that of the pinned wheel, or
 *   `MLX_DIR` when that is set.
 * - `openblasRoot`: the folder with OpenBLAS's `lib/`; undefined on macOS, where MLX uses Accelerate.
 *
 * @param {string} [platform] as native.lock.json names it; this machine's unless given
 * @returns {{ mlxRoot: string, openblasRoot: string | undefined }}
 */
export function fetchMlx(platform = hostPlatform) {
  return {
    mlxRoot: ownMlx() ?? join(unpackedWheel('mlx', platform), 'mlx'),
    openblasRoot: pinnedWheel('openblas', platform)
      ? join(unpackedWheel('openblas', platform), 'scipy_openblas32')
      : undefined,
  };
}

/** The MLX installation that `MLX_DIR` points at, if it does. */
function ownMlx() {
  if (!process.env.MLX_DIR) return undefined;
  const root = resolve(process.env.MLX_DIR);
  if (existsSync(join(root, 'share/cmake/MLX/MLXConfig.cmake'))) return root;
  throw new ToolError(
    `MLX_DIR is ${root}, which has no share/cmake/MLX/MLXConfig.cmake. ` +
      'Point it at the folder that MLX was installed to, or unset it to use the pinned wheel.',
  );
}

if (isMainModule(import.meta.url)) {
  await runScript(() => {
    const { platform } = scriptOptions('[--platform linux-x64]', { platform: { type: 'string' } });
    const { mlxRoot, openblasRoot } = fetchMlx(platform);
    console.log(mlxRoot);
    if (openblasRoot) console.log(openblasRoot);
  });
}
