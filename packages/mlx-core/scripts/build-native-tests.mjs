import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { nativeBuild } from './build-native.mjs';
import { cmakeBuild } from './cmake-build.mjs';
import { scriptOptions } from './script-options.mjs';
import { isMainModule, runScript } from './tool-error.mjs';

const buildFolder = join(import.meta.dirname, '../build');

/** Where CMake puts the test programs when the addon is built in `folder`. */
export function testPrograms(folder = join(buildFolder, 'cmake')) {
  const programs = join(folder, 'native/test/programs');
  return readdirSync(programs).map((name) => ({ name, path: join(programs, name) }));
}

/**
 * Builds the test programs, beside the addon or, with sanitizers, in a folder of their own.
 *
 * @param {object} [options]
 * @param {string} [options.sanitizers] what `-fsanitize` takes, such as `address,undefined`
 * @param {boolean} [options.standalone] only those that need no libmlx
 * @returns {Promise<string>} the folder to give to `testPrograms`
 */
export async function buildNativeTests({ sanitizers = '', standalone = false } = {}) {
  const build = nativeBuild(standalone ? 'native_tests_standalone' : 'native_tests');
  if (!sanitizers) {
    await cmakeBuild(build);
    return build.folder;
  }
  const folder = join(buildFolder, `sanitized-${sanitizers.replaceAll(',', '-')}`);
  const output = join(folder, 'output');
  await cmakeBuild({
    ...build,
    folder,
    definitions: { ...build.definitions, NATIVE_OUTPUT_DIR: output, SANITIZE: sanitizers },
    logFile: `${folder}.log`,
  });
  return folder;
}

if (isMainModule(import.meta.url)) {
  await runScript(async () => {
    const { sanitize, standalone } = scriptOptions('[--sanitize address,…] [--standalone]', {
      sanitize: { type: 'string' },
      standalone: { type: 'boolean' },
    });
    await buildNativeTests({ sanitizers: sanitize, standalone });
  });
}
