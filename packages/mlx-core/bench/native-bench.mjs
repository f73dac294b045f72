/** The programs of native/bench: they print what they measure, one JSON object a line. */
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { nativeBuild } from '../scripts/build-native.mjs';
import { cmakeBuild } from '../scripts/cmake-build.mjs';
import { ToolError } from '../scripts/tool-error.mjs';
import { row } from './rows.mjs';

/**
 * Builds the kernels and a program that measures them, and runs it.
 *
 * @param {string} name of the program
 * @param {{ library: string, name: string } | undefined} llamaCpp
 */
export async function nativeRows(name, llamaCpp) {
  const build = nativeBuild(name);
  // OpenBLAS comes along with the addon.
  await cmakeBuild({ ...build, target: 'mlx_core' });
  await cmakeBuild(build);
  const openblas = join(build.definitions.NATIVE_OUTPUT_DIR, 'libscipy_openblas.so');
  const program = join(build.folder, 'native/bench', name);
  const libraries = llamaCpp ? [openblas, llamaCpp.library] : [openblas];
  const child = spawn(program, libraries, { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = new Promise((resolve, reject) => child.on('error', reject).on('close', resolve));
  const rows = [];
  for await (const line of createInterface({ input: child.stdout })) {
    const measured = JSON.parse(line);
    const peerName = measured.peerName.replace('llama.cpp', llamaCpp?.name);
    rows.push(row({ ...measured, peerName }));
  }
  const code = await ended;
  if (code !== 0) throw new ToolError(`${program} ended with ${code}`);
  return rows;
}
