import { cpSync, existsSync, mkdirSync, readdirSync, symlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { trackedFiles } from '../../ci/tracked-files.mjs';

export const workspaceRoot = join(import.meta.dirname, '../../..');

/**
 * Copies the workspace to an empty folder, with what is built, so that a test can change it: installed packages are
 * links, the workspace's own ones lead to the copy.
 */
export function copyWorkspace(/** @type {string} */ target) {
  for (const file of trackedFiles(workspaceRoot)) {
    if (!/\.(safetensors|wav)$/.test(file)) copy(file, target);
  }
  const native = 'packages/mlx-core/build/native';
  mkdirSync(join(target, dirname(native)), { recursive: true });
  symlinkSync(join(workspaceRoot, native), join(target, native));
  for (const name of readdirSync(join(workspaceRoot, 'packages')))
    copy(`packages/${name}/dist`, target);
  linkPackages(target);
}

function copy(/** @type {string} */ path, /** @type {string} */ target) {
  const source = join(workspaceRoot, path);
  if (!existsSync(source)) return;
  // File times tell the compiler that what is built is up to date.
  cpSync(source, join(target, path), { recursive: true, preserveTimestamps: true });
}

function linkPackages(/** @type {string} */ target) {
  const installed = join(workspaceRoot, 'node_modules');
  const modules = join(target, 'node_modules');
  mkdirSync(join(modules, '@mlx-runners'), { recursive: true });
  const shared = readdirSync(installed).filter(
    (name) => name !== '@mlx-runners' && name !== '.cache',
  );
  for (const name of shared) symlinkSync(join(installed, name), join(modules, name));
  for (const group of ['packages', 'tools', 'runners']) {
    for (const name of readdirSync(join(target, group))) {
      if (!existsSync(join(target, group, name, 'package.json'))) continue;
      symlinkSync(join(target, group, name), join(modules, '@mlx-runners', name));
    }
  }
}
