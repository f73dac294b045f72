/** What a run of whisper-base takes, and leaves behind. */
import { existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { mx } from '@mlx-runners/mlx-core';
import { speechPath } from '@mlx-runners/test-fixtures';
import { describe, expect, it } from 'vitest';
import { loadRecogniser, WhisperModel } from '../src/pipeline.js';
import { runCli } from '../test/run-cli.js';
import { loadDefaultModel } from './weights.js';

const available = await loadDefaultModel();
await available?.dispose();

const megabyte = 1e6;

/** Makes a Node process print its peak of resident memory when it ends. */
const reportPeak = `
  import { readFileSync } from 'node:fs';
  process.on('exit', () => process.stderr.write(readFileSync('/proc/self/status')));
`;

describe('the memory of whisper-base', () => {
  it.runIf(existsSync('/proc/self/status'))(
    'peaks at 1.3 times the weights in float32 and 250 MB',
    async () => {
      const { model } = await loadRecogniser('whisper-base', { device: 'cpu', dtype: 'float32' });
      const weights = [...model.parameters().values()].reduce((sum, { nbytes }) => sum + nbytes, 0);
      model.dispose();
      const preload = `data:text/javascript;base64,${Buffer.from(reportPeak).toString('base64')}`;
      const { code, err } = runCli(['--device', 'cpu', speechPath()], {
        cwd: tmpdir(),
        env: { NODE_OPTIONS: `--import ${preload}` },
      });
      expect(code).toBe(0);
      const peak = Number(/^VmHWM:\s+(\d+) kB$/m.exec(err)?.[1]) * 1024;
      expect(peak).toBeGreaterThan(weights);
      expect(peak).toBeLessThan(1.3 * weights + 250 * megabyte);
    },
  );

  it('is the same after each of 20 runs', async () => {
    const recogniser = await loadRecogniser('whisper-base', { device: 'cpu', dtype: 'float32' });
    await using model = new WhisperModel(recogniser);
    const texts = new Set<string>();
    const loaded = mx.memory();
    let resident = 0;
    for (let run = 0; run < 20; run++) {
      texts.add((await model.transcribe(speechPath()).result()).text);
      const { arrays, active } = mx.memory();
      expect({ arrays, active }).toEqual({ arrays: loaded.arrays, active: loaded.active });
      // The first runs fill caches.
      if (run === 4) resident = process.memoryUsage.rss();
    }
    expect(texts.size).toBe(1);
    expect(process.memoryUsage.rss() - resident).toBeLessThan(150 * megabyte);
  }, 300_000);
});
