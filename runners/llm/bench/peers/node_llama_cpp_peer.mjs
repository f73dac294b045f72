/**
 * node-llama-cpp for `llm bench`: loads once, then continues token ids each time it is asked to.
 *
 *     node node_llama_cpp_peer.mjs PACKAGES GGUF THREADS CONTEXT
 *
 * PACKAGES is the folder whose node_modules has it. mlx_lm_peer.py says how contestants talk.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

const [packages = '', modelPath = '', threadCount = '', contextSize = ''] = process.argv.slice(2);
const threads = Number(threadCount);
const home = join(packages, 'node_modules', 'node-llama-cpp');
const { getLlama, LlamaLogLevel } = await import(
  pathToFileURL(join(home, 'dist', 'index.js')).href
);
const { version } = JSON.parse(readFileSync(join(home, 'package.json'), 'utf8'));

const answer = (/** @type {object} */ fields) =>
  process.stdout.write(`${JSON.stringify(fields)}\n`);

/** The build of llama.cpp's kernels that was chosen for this CPU. */
function kernels() {
  const maps = readFileSync('/proc/self/maps', 'utf8');
  return [...new Set(maps.match(/\S*libggml-cpu\S*/g))].join(', ');
}

function peakBytes() {
  const kilobytes = /^VmHWM:\s*(\d+)/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1];
  return Number(kilobytes) * 1024;
}

const llama = await getLlama({
  gpu: false,
  build: 'never',
  maxThreads: threads,
  logLevel: LlamaLogLevel.error,
});
const started = performance.now();
const model = await llama.loadModel({ modelPath, gpuLayers: 0 });
const context = await model.createContext({ contextSize: Number(contextSize), threads });
const sequence = context.getSequence();
answer({ version, runsOn: kernels(), loadSeconds: (performance.now() - started) / 1000 });

for await (const line of createInterface({ input: process.stdin })) {
  const { ids, maxTokens } = JSON.parse(line);
  await sequence.clearHistory();
  const drawn = [];
  let first = 0;
  const start = performance.now();
  // Goes on behind tokens that end an answer.
  for await (const token of sequence.evaluate(ids, { temperature: 0, yieldEogToken: true })) {
    if (drawn.length === 0) first = performance.now();
    drawn.push(token);
    if (drawn.length === maxTokens) break;
  }
  const seconds = (performance.now() - start) / 1000;
  answer({ ids: drawn, firstSeconds: (first - start) / 1000, seconds, peakBytes: peakBytes() });
}
await llama.dispose();
