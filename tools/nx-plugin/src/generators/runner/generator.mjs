import { join } from 'node:path';
import { formatFiles, generateFiles, installPackagesTask, readJson, updateJson } from '@nx/devkit';

const NAME = /^[a-z][a-z0-9]*([.-][a-z0-9]+)*$/;

/** What the new runner is made with, at the versions that the workspace has. */
const LIBRARIES = ['commander', 'zod'];

/**
 * Makes `runners/NAME`: a tiny runner that builds, lints, tests and runs, laid out like all others, for its author to
 * replace part by part.
 *
 * @param {import('@nx/devkit').Tree} tree
 * @param {{ name: string, skipInstall?: boolean }} options
 */
export default async function runnerGenerator(tree, { name, skipInstall = false }) {
  const root = `runners/${name}`;
  if (!NAME.test(name)) {
    throw new Error(
      `"${name}" can't name a runner: lower-case words joined by "-" or "." can, such as my-model.`,
    );
  }
  if (tree.exists(root)) throw new Error(`${root} is there already.`);
  generateFiles(tree, join(import.meta.dirname, 'files'), root, {
    name,
    typeName: pascalCase(name),
    version: readJson(tree, 'package.json').version,
    libraries: libraryVersions(tree),
  });
  updateJson(tree, 'tsconfig.json', (tsconfig) => ({
    ...tsconfig,
    references: [...tsconfig.references, { path: `./${root}` }],
  }));
  await formatFiles(tree);
  // Puts the new package into the lock file.
  return skipInstall ? undefined : () => installPackagesTask(tree, true);
}

/** Taken from the runner library, so that the workspace has one version of each. */
function libraryVersions(/** @type {import('@nx/devkit').Tree} */ tree) {
  const { dependencies } = readJson(tree, 'packages/runner/package.json');
  return Object.fromEntries(LIBRARIES.map((library) => [library, dependencies[library]]));
}

function pascalCase(/** @type {string} */ name) {
  return name.replace(/(?:^|[.-])([a-z0-9])/g, (_, letter) => letter.toUpperCase());
}
