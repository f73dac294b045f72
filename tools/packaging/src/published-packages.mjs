import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

export const workspaceRoot = join(import.meta.dirname, '../../..');

/**
 * @typedef {Record<string, any> & { name: string, version: string, dependencies?: Record<string, string> }} Manifest
 * @typedef {{ name: string, root: string, manifest: Manifest }} WorkspacePackage `root` is absolute
 */

/**
 * The workspace's packages that are published, each after those that it depends on.
 *
 * @returns {WorkspacePackage[]}
 */
export function publishedPackages() {
  const found = ['packages', 'runners']
    .flatMap((group) =>
      readdirSync(join(workspaceRoot, group)).map((name) => join(workspaceRoot, group, name)),
    )
    .filter((root) => existsSync(join(root, 'package.json')))
    .map((root) => workspacePackage(root))
    .filter(({ manifest }) => !manifest.private);
  /** @type {Map<string, WorkspacePackage>} */
  const ordered = new Map();
  const add = (/** @type {WorkspacePackage} */ published) => {
    for (const name of Object.keys(published.manifest.dependencies ?? {})) {
      const dependency = found.find((candidate) => candidate.name === name);
      if (dependency && !ordered.has(name)) add(dependency);
    }
    ordered.set(published.name, published);
  };
  found.forEach(add);
  return [...ordered.values()];
}

/** @returns {WorkspacePackage} */
export function workspacePackage(/** @type {string} */ root) {
  const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  return { name: manifest.name, root, manifest };
}
