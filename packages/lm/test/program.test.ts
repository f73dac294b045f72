/** The families as programs, with every kind of cache, against transformers, on tiny checkpoints. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { mx, type MxArray } from '@mlx-runners/mlx-core';
import { DecoderModel, decoderProgram, Sampler, type DecoderProgramOptions } from '@mlx-runners/lm';
import { exportModel, loadExport } from '@mlx-runners/program';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { goldenDecoder } from './golden-decoder.js';

const names = ['tiny_llama3', 'tiny_llama_tied', 'tiny_qwen2', 'tiny_qwen3', 'tiny_gemma3'];
const programs: [string, DecoderProgramOptions][] = [
  ['off-graph', {}],
  ['in-graph', { cache: 'in-graph' }],
  ['in-graph, masked', { cache: 'in-graph', useCustomSdpa: false }],
  ['in-graph, by slices', { cache: 'in-graph', useCustomKvCache: false }],
  ["in-graph, MLX's ops", { cache: 'in-graph', useCustomSdpa: false, useCustomKvCache: false }],
];

describe.each(names)('%s', (name) => {
  const { decoder, golden } = goldenDecoder(name);
  const folder = mkdtempSync(join(tmpdir(), 'lm-program-'));
  afterAll(() => {
    decoder.dispose();
    rmSync(folder, { recursive: true });
  });

  describe.each(programs)('%s', (_, options) => {
    let model: DecoderModel;
    beforeAll(async () => {
      const program = decoderProgram(decoder, { ...options, prefillChunk: 64 });
      const path = join(folder, JSON.stringify(options));
      await exportModel(path, { model: { id: name }, dtype: 'float32', ...program });
      model = new DecoderModel(loadExport(path), path);
    });
    afterAll(() => model.dispose());

    it.each([64, 7, 1])('gives the logits in pieces of %s', async (piece) => {
      const ids = Array.from(await golden('ids_long').data(), Number);
      using sequence = model.sequence();
      const parts: MxArray[] = [];
      for (let start = 0; start < ids.length; start += piece) {
        const part = ids.slice(start, start + piece);
        parts.push(await sequence.logits(part, [...part.keys()]));
      }
      const expected = golden('logits_long');
      const range = expected.max().subtract(expected.min());
      const error = mx.concatenate(parts).subtract(expected).abs().max().divide(range);
      expect(await error.item()).toBeLessThan(1e-4);
    });

    it('continues greedily as the reference does', async () => {
      using sequence = model.sequence();
      const tokens = await sequence.continue(Array.from(await golden('ids').data(), Number), {
        sampler: new Sampler({ temperature: 0 }),
        stopIds: new Set(),
        maxTokens: 16,
      });
      const expected = Array.from(await golden('greedy16').data(), Number);
      expect(tokens.map(({ id }) => id)).toEqual(expected);
    });
  });
});
