/**
 * Measures linear layers and writes bench/results/linear.json. Ours and the peer of a row are measured in turns, so
 * their ratio holds on a busy machine too.
 */
import { spawn } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { availableParallelism, cpus, totalmem } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { nativeBuild } from '../scripts/build-native.mjs';
import { cmakeBuild } from '../scripts/cmake-build.mjs';
import { runScript, ToolError } from '../scripts/tool-error.mjs';

const resultFile = join(import.meta.dirname, 'results/linear.json');

/**
 * The rows that the program prints, with the ratio: how many times better ours is.
 *
 * @returns {Promise<object[]>}
 */
async function measure(/** @type {string} */ program, /** @type {string} */ openblas) {
  const child = spawn(program, [openblas], { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = new Promise((resolve, reject) => child.on('error', reject).on('close', resolve));
  const rows = [];
  for await (const line of createInterface({ input: child.stdout })) {
    const { better, ...row } = JSON.parse(line);
    const ratio = better === 'lower' ? row.peer / row.ours : row.ours / row.peer;
    rows.push({ ...row, ratio: Number(ratio.toPrecision(4)) });
    const goal = row.goal === null ? '' : ratio >= row.goal ? ' (met)' : ` (goal ${row.goal})`;
    console.log(
      `${row.what}: ${row.ours} ${row.unit}, ${row.peerName} ${row.peer}, ${ratio.toFixed(2)}x${goal}`,
    );
  }
  const code = await ended;
  if (code !== 0) throw new ToolError(`${program} ended with ${code}`);
  return rows;
}

await runScript(async () => {
  const build = nativeBuild('linear_bench');
  // OpenBLAS comes along with the addon.
  await cmakeBuild({ ...build, target: 'mlx_core' });
  await cmakeBuild(build);
  const rows = await measure(
    join(build.folder, 'native/bench/linear_bench'),
    join(build.definitions.NATIVE_OUTPUT_DIR, 'libscipy_openblas.so'),
  );
  const machine = {
    cpu: cpus()[0]?.model.trim() || 'unknown',
    cores: availableParallelism(),
    memoryGiB: Number((totalmem() / 2 ** 30).toFixed(1)),
    platform: `${process.platform} ${process.arch}`,
    node: process.version,
  };
  mkdirSync(dirname(resultFile), { recursive: true });
  writeFileSync(resultFile, `${JSON.stringify({ machine, rows }, null, 2)}\n`);
});
