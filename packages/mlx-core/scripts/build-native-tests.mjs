import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { nativeBuild } from './build-native.mjs';
import { cmakeBuild } from './cmake-build.mjs';
import { scriptOptions } from './script-options.mjs';
import { isMainModule, runScript } from './tool-error.mjs';

const buildFolder = join(import.meta.dirname, '../build');

/** Where the test programs of native/test lie, built as the addon is or with sanitizers. */
export function testPrograms(sanitizers = process.env.MLX_RUNNERS_SANITIZE ?? '') {
  const folder = join(cmakeFolder(sanitizers), 'native/test/programs');
  return readdirSync(folder).map((name) => ({ name, path: join(folder, name) }));
}

function cmakeFolder(/** @type {string} */ sanitizers) {
  return join(buildFolder, sanitizers ? `sanitized-${sanitizers.replaceAll(',', '-')}` : 'cmake');
}

/**
 * Builds the test programs, beside the addon or, with sanitizers, in a folder of their own.
 *
 * @param {object} [options]
 * @param {string} [options.sanitizers] what `-fsanitize` takes, such as `address,undefined`
 * @param {boolean} [options.standalone] only those that need no libmlx
 */
export async function buildNativeTests({ sanitizers = '', standalone = false } = {}) {
  const build = nativeBuild(standalone ? 'native_tests_standalone' : 'native_tests');
  if (!sanitizers) return cmakeBuild(build);
  const folder = cmakeFolder(sanitizers);
  const NATIVE_OUTPUT_DIR = join(folder, 'output');
  const definitions = { ...build.definitions, NATIVE_OUTPUT_DIR, SANITIZE: sanitizers };
  return cmakeBuild({ ...build, folder, definitions, logFile: `${folder}.log` });
}

if (isMainModule(import.meta.url)) {
  await runScript(() => {
    const { sanitize, standalone } = scriptOptions('[--sanitize address,…] [--standalone]', {
      sanitize: { type: 'string' },
      standalone: { type: 'boolean' },
    });
    return buildNativeTests({ sanitizers: sanitize, standalone });
  });
}
