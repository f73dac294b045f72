import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { ToolError } from '../../../packages/mlx-core/scripts/tool-error.mjs';
import { publishedManifest } from './published-manifest.mjs';
import { workspaceRoot } from './published-packages.mjs';

/** What the compiler makes of one source. */
const OUTPUTS = ['.js', '.js.map', '.d.ts', '.d.ts.map'];

/**
 * Writes a package, as it is published, to a folder that is ready for `npm pack`.
 *
 * @param {import('./published-packages.mjs').WorkspacePackage} published
 * @param {string} folder emptied first
 * @param {{ repository?: string }} [options]
 * @throws {ToolError} when the package isn't built
 */
export function stagePackage({ name, root, manifest }, folder, { repository } = {}) {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const directory = root.slice(workspaceRoot.length + 1);
  const staged = publishedManifest(manifest, { repository, directory });
  writeFileSync(join(folder, 'package.json'), `${JSON.stringify(staged, null, 2)}\n`);
  copyFileSync(join(workspaceRoot, 'LICENSE'), join(folder, 'LICENSE'));
  for (const file of ['README.md', ...manifest.files]) {
    if (file === 'dist') continue;
    if (!existsSync(join(root, file))) throw new ToolError(`${name} has no ${file}.`);
    cpSync(join(root, file), join(folder, file), { recursive: true });
  }
  for (const file of builtFiles(root)) {
    const source = join(root, 'dist', file);
    if (!existsSync(source)) throw new ToolError(`${source} is missing: npx nx build ${name}`);
    mkdirSync(dirname(join(folder, 'dist', file)), { recursive: true });
    copyFileSync(source, join(folder, 'dist', file));
  }
}

/** What `dist` holds of the present sources: the compiler leaves there what it made of former ones. */
function builtFiles(/** @type {string} */ root) {
  return readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts') && !file.endsWith('.d.ts'))
    .flatMap((file) => OUTPUTS.map((ending) => file.replace(/\.ts$/, ending)));
}
