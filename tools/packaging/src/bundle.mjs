import {
  chmodSync,
  copyFileSync,
  linkSync,
  mkdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { basename, join } from 'node:path';
import { build } from 'vite';
import { nativeLibraries } from '../../../packages/mlx-core/packaging/native-libraries.mjs';
import { PLATFORMS } from '../../../packages/mlx-core/packaging/platforms.mjs';
import {
  nativeNotices,
  notice,
} from '../../../packages/mlx-core/packaging/third-party-notices.mjs';
import { ToolError } from '../../../packages/mlx-core/scripts/tool-error.mjs';
import { workspacePackage, workspaceRoot } from './published-packages.mjs';
import { replacedFolder } from './replaced-folder.mjs';

/**
 * Makes a folder with a runner's command line that needs nothing but Node around it: the JavaScript in one file, and
 * the native library.
 *
 * @param {string} runnerRoot the runner's folder, built
 * @param {string} folder replaced when there is one
 * @param {string} platform whose native library goes into it
 */
export async function bundleRunner(runnerRoot, folder, platform) {
  const { manifest } = workspacePackage(runnerRoot);
  await replacedFolder(folder, async (partial) => {
    const licenses = await bundleJavaScript(runnerRoot, manifest, partial);
    await addNativeLibrary(platform, join(partial, 'dist'));
    const { name, version, description, license, type, engines, bin } = manifest;
    const bundled = { name, version, description, license, private: true, type, engines, bin };
    const write = (/** @type {string} */ file, /** @type {string} */ text) =>
      writeFileSync(join(partial, file), text);
    write('package.json', `${JSON.stringify(bundled, null, 2)}\n`);
    write('README.md', readme(manifest, platform));
    write('THIRD-PARTY-NOTICES.txt', `${nativeNotices(platform)}\n${licenses}`);
    copyFileSync(join(workspaceRoot, 'LICENSE'), join(partial, 'LICENSE'));
  });
}

function readme(
  /** @type {import('./published-packages.mjs').Manifest} */ { version, description, engines, bin },
  /** @type {string} */ platform,
) {
  const [[command, entry]] = Object.entries(/** @type {Record<string, string>} */ (bin));
  return `# ${command} ${version}

${description}: the command line for ${PLATFORMS[platform].title}, with all it needs but Node (${engines.node}).
Start it where this folder lies, or through a link; the folder may be moved as a whole.

    ${entry} --help
    node ${entry} --help
    ln -s "$PWD/${entry.replace('./', '')}" ~/.local/bin/${command}

THIRD-PARTY-NOTICES.txt has the licences of what is in it.
`;
}

/** @returns {Promise<string>} the licences of the packages that went in */
async function bundleJavaScript(
  /** @type {string} */ runnerRoot,
  /** @type {import('./published-packages.mjs').Manifest} */ { name, bin },
  /** @type {string} */ folder,
) {
  const [entry] = Object.values(/** @type {Record<string, string>} */ (bin));
  const outDir = join(folder, 'dist');
  await build({
    configFile: false,
    root: runnerRoot,
    logLevel: 'warn',
    // Node's own rules: `module` is what other bundlers look at, and some packages have something else there.
    ssr: { noExternal: true, resolve: { mainFields: ['main'] } },
    build: {
      ssr: join(runnerRoot, entry),
      outDir,
      emptyOutDir: true,
      // As compiled: `using` stays down-levelled.
      target: 'es2022',
      minify: false,
      license: { fileName: 'licenses.json' },
    },
  });
  chmodSync(join(outDir, basename(entry)), 0o755);
  const licenseFile = join(outDir, 'licenses.json');
  /** @type {{ name: string, version: string, identifier: string, text?: string }[]} */
  const licenses = JSON.parse(readFileSync(licenseFile, 'utf8'));
  rmSync(licenseFile);
  return licenses
    .map((used) => {
      if (used.text) return notice(`${used.name} ${used.version} (${used.identifier})`, used.text);
      throw new ToolError(
        `${used.name}, which ${name} bundles, comes without the text of its licence.`,
      );
    })
    .join('\n');
}

async function addNativeLibrary(/** @type {string} */ platform, /** @type {string} */ dist) {
  const { folder, files } = await nativeLibraries(platform);
  mkdirSync(join(dist, 'native'));
  for (const file of files) linkOrCopy(join(folder, file), join(dist, 'native', file));
}

/** Hard links take no space, but only within a file system. */
function linkOrCopy(/** @type {string} */ source, /** @type {string} */ target) {
  try {
    linkSync(source, target);
  } catch {
    copyFileSync(source, target);
  }
}
