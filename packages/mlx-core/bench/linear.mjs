/**
 * Measures linear layers and writes results/linear.json. Ours and the peer of a row are measured in turns, so their
 * ratio holds on a busy machine too.
 */
import { scriptOptions } from '../scripts/script-options.mjs';
import { runScript } from '../scripts/tool-error.mjs';
import { llamaCppPeer, noteWholeModel } from './llama-cpp.mjs';
import { nativeRows } from './native-bench.mjs';
import { writeResults } from './rows.mjs';

await runScript(async () => {
  scriptOptions('none', {});
  const llamaCpp = llamaCppPeer();
  writeResults('linear', await nativeRows('linear_bench', llamaCpp));
  if (llamaCpp) noteWholeModel(llamaCpp);
});
