import { platformPackageName, PLATFORMS } from '../../../packages/mlx-core/packaging/platforms.mjs';

/** What of a package.json concerns users. The rest (nx, devDependencies, …) concerns the workspace. */
const FIELDS = [
  ...['name', 'version', 'description', 'license', 'type', 'engines', 'bin', 'exports', 'files'],
  'dependencies',
];

/** By this condition the workspace's own tools take the TypeScript sources of each other's packages. */
const SOURCE_CONDITION = '@mlx-runners/source';

/**
 * A package.json as it is published.
 *
 * @param {import('./published-packages.mjs').Manifest} manifest
 * @param {{ repository?: string, directory?: string }} [origin] the repository's address, which npm's provenance needs
 */
export function publishedManifest(manifest, { repository, directory } = {}) {
  const kept = Object.fromEntries(
    FIELDS.filter((field) => manifest[field] !== undefined).map((field) => [
      field,
      manifest[field],
    ]),
  );
  return {
    ...kept,
    ...(repository && { repository: { type: 'git', url: repository, directory } }),
    exports: withoutSourceCondition(manifest.exports),
    ...(manifest.name === '@mlx-runners/mlx-core' && {
      optionalDependencies: platformPackages(manifest.version),
    }),
  };
}

/** Named here and not in the workspace, where the native library is the workspace's build. */
function platformPackages(/** @type {string} */ version) {
  return Object.fromEntries(
    Object.keys(PLATFORMS).map((platform) => [platformPackageName(platform), version]),
  );
}

/** @returns {unknown} */
function withoutSourceCondition(/** @type {unknown} */ exports) {
  if (typeof exports !== 'object' || exports === null) return exports;
  return Object.fromEntries(
    Object.entries(exports)
      .filter(([condition]) => condition !== SOURCE_CONDITION)
      .map(([key, target]) => [key, withoutSourceCondition(target)]),
  );
}
