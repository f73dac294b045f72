/** Measures what the thread pool gives and costs, and writes results/threads.json. */
import { scriptOptions } from '../scripts/script-options.mjs';
import { runScript } from '../scripts/tool-error.mjs';
import { llamaCppPeer } from './llama-cpp.mjs';
import { nativeRows } from './native-bench.mjs';
import { writeResults } from './rows.mjs';

await runScript(async () => {
  scriptOptions('none', {});
  writeResults('threads', await nativeRows('threads_bench', llamaCppPeer()));
});
