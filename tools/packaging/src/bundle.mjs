import {
  chmodSync,
  copyFileSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { build } from 'vite';
import { nativeLibraries } from '../../../packages/mlx-core/packaging/native-libraries.mjs';
import {
  nativeNotices,
  notice,
} from '../../../packages/mlx-core/packaging/third-party-notices.mjs';
import { ToolError } from '../../../packages/mlx-core/scripts/tool-error.mjs';
import { workspacePackage, workspaceRoot } from './published-packages.mjs';

/**
 * Makes a folder with a runner's command line that needs nothing but Node around it: the JavaScript in one file, the
 * native library, and what both read.
 *
 * @param {string} runnerRoot the runner's folder, built
 * @param {string} folder replaced when there is one
 * @param {string} platform whose native library goes into it
 */
export async function bundleRunner(runnerRoot, folder, platform) {
  const { manifest } = workspacePackage(runnerRoot);
  mkdirSync(dirname(resolve(folder)), { recursive: true });
  // Made beside it and renamed, so that the folder is never seen half-filled.
  const partial = mkdtempSync(`${resolve(folder)}.part-`);
  try {
    const licenses = await bundleJavaScript(runnerRoot, manifest, partial);
    await addNativeLibrary(platform, join(partial, 'dist'));
    const { name, version, description, license, type, engines, bin } = manifest;
    const bundled = { name, version, description, license, private: true, type, engines, bin };
    writeFileSync(join(partial, 'package.json'), `${JSON.stringify(bundled, null, 2)}\n`);
    writeFileSync(
      join(partial, 'THIRD-PARTY-NOTICES.txt'),
      `${nativeNotices(platform)}\n${licenses}`,
    );
    copyFileSync(join(runnerRoot, 'runner.json'), join(partial, 'runner.json'));
    copyFileSync(join(workspaceRoot, 'LICENSE'), join(partial, 'LICENSE'));
    rmSync(folder, { recursive: true, force: true });
    renameSync(partial, folder);
  } finally {
    rmSync(partial, { recursive: true, force: true });
  }
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
