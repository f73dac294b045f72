import { spawnSync } from 'node:child_process';
import { chmodSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { scriptOptions } from './script-options.mjs';
import { isMainModule, runScript, ToolError } from './tool-error.mjs';
import { unpackedWheel } from './wheels.mjs';

const packageRoot = join(import.meta.dirname, '..');

/** Checks the C++ sources with the pinned clang-format, or rewrites them (`--write`). */
function formatNative(write = false) {
  const sources = readdirSync(join(packageRoot, 'native'), { recursive: true, encoding: 'utf8' })
    .filter((file) => /\.(h|cpp|mm|cu)$/.test(file))
    .map((file) => join('native', file));
  const mode = write ? ['-i'] : ['--dry-run', '-Werror'];
  const { status } = spawnSync(clangFormat(), ['--style=file', ...mode, ...sources], {
    cwd: packageRoot,
    stdio: 'inherit',
  });
  if (status !== 0)
    throw new ToolError('Run `npx nx run mlx-core:format` to format the C++ sources.');
}

function clangFormat() {
  const program = join(unpackedWheel('clang-format'), 'clang_format/data/bin/clang-format');
  // Python's zipfile forgets file modes.
  chmodSync(program, 0o755);
  return program;
}

if (isMainModule(import.meta.url)) {
  await runScript(() => {
    const { write } = scriptOptions('[--write]', { write: { type: 'boolean' } });
    formatNative(write);
  });
}
