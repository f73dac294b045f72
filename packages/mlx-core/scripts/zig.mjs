import { chmodSync } from 'node:fs';
import { join } from 'node:path';
import { unpackedWheel } from './wheels.mjs';

/** Fetches Zig, whose compiler builds for other systems, and names it in ZIG for CMake's toolchain files. */
export function useZig() {
  const program = join(unpackedWheel('ziglang'), 'ziglang/zig');
  // Python's zipfile forgets file modes.
  chmodSync(program, 0o755);
  process.env.ZIG = program;
  // With the build, so that nothing is left behind in the user's cache folder.
  const cache = join(import.meta.dirname, '../build/zig-cache');
  process.env.ZIG_GLOBAL_CACHE_DIR = cache;
  process.env.ZIG_LOCAL_CACHE_DIR = cache;
}
