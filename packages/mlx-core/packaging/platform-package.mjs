import { copyFileSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { scriptOptions } from '../scripts/script-options.mjs';
import { isMainModule, runScript } from '../scripts/tool-error.mjs';
import { hostPlatform } from '../scripts/wheels.mjs';
import { nativeLibraries } from './native-libraries.mjs';
import { platformPackageName, PLATFORMS } from './platforms.mjs';
import { nativeNotices } from './third-party-notices.mjs';

const packageRoot = join(import.meta.dirname, '..');

/**
 * Writes the package `@mlx-runners/mlx-core-PLATFORM`: the native library with all it needs, in a folder that is ready
 * for `npm pack`. It has no scripts: nothing runs when it is installed.
 *
 * @param {string} platform such as `linux-x64`
 * @param {string} folder emptied first
 * @param {{ repository?: string }} [options] the address that npm's provenance needs
 */
export async function writePlatformPackage(platform, folder, { repository } = {}) {
  const libraries = await nativeLibraries(platform);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  for (const file of libraries.files)
    copyFileSync(join(libraries.folder, file), join(folder, file));
  const write = (/** @type {string} */ file, /** @type {string} */ text) =>
    writeFileSync(join(folder, file), text);
  const manifest = platformManifest(platform, libraries.files, repository);
  write('package.json', `${JSON.stringify(manifest, null, 2)}\n`);
  write('README.md', readme(platform));
  write('THIRD-PARTY-NOTICES.txt', nativeNotices(platform));
  copyFileSync(join(packageRoot, '../../LICENSE'), join(folder, 'LICENSE'));
}

function platformManifest(
  /** @type {string} */ platform,
  /** @type {string[]} */ files,
  /** @type {string | undefined} */ repository,
) {
  const { version, engines } = JSON.parse(readFileSync(join(packageRoot, 'package.json'), 'utf8'));
  const { os, cpu, libc, title, license } = PLATFORMS[platform];
  return {
    name: platformPackageName(platform),
    version,
    description: `Native library of @mlx-runners/mlx-core for ${title}`,
    license,
    ...(repository && {
      repository: { type: 'git', url: repository, directory: 'packages/mlx-core' },
    }),
    engines,
    os: [os],
    cpu: [cpu],
    ...(libc && { libc: [libc] }),
    // Libraries are loaded from disk, not from Yarn's archives.
    preferUnplugged: true,
    main: './mlx_core.node',
    files: [...files, 'THIRD-PARTY-NOTICES.txt'],
  };
}

function readme(/** @type {string} */ platform) {
  return `# ${platformPackageName(platform)}

The native library of \`@mlx-runners/mlx-core\` for
${PLATFORMS[platform].title}. Install \`@mlx-runners/mlx-core\`: it brings the one for your machine.
`;
}

if (isMainModule(import.meta.url)) {
  await runScript(async () => {
    const { platform } = scriptOptions('[--platform linux-x64]', {
      platform: { type: 'string', default: hostPlatform },
    });
    const folder = join(packageRoot, 'build/platform-packages', `mlx-core-${platform}`);
    await writePlatformPackage(platform, folder);
    const { files } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
    for (const file of files) {
      console.log(`${String(statSync(join(folder, file)).size).padStart(10)} ${file}`);
    }
    console.log(folder);
  });
}
