import { copyFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { mx } from '@mlx-runners/mlx-core';
import { readGolden, type GoldenResult } from '@mlx-runners/runner';
import { fixtureNames, fixturePath } from '@mlx-runners/test-fixtures';
import { goldenCheckers } from '../src/golden.js';

const folder = mkdtempSync(join(tmpdir(), 'whisper-golden-'));
afterAll(() => rmSync(folder, { recursive: true }));

async function check(path: string): Promise<GoldenResult[]> {
  const fixture = await readGolden(path);
  const checkers = goldenCheckers.filter((checker) => checker.matches(fixture));
  const results = await Promise.all(checkers.map((checker) => checker.check(fixture, {})));
  return results.flat();
}

/** A copy of a fixture with one tensor changed. */
function changed(name: string, tensor: string, index: number, by: number): string {
  const path = join(folder, name);
  copyFileSync(fixturePath(name), path);
  const { tensors, metadata } = mx.loadSafetensors(path);
  const original = tensors.get(tensor);
  if (!original) throw new Error(`${name} has no ${tensor}`);
  const values = original.dataSync() as Float32Array;
  values[index] += by;
  tensors.set(tensor, mx.array(values, original.shape));
  mx.saveSafetensors(path, tensors, metadata);
  return path;
}

const networks = fixtureNames('tiny_whisper');

describe('golden', () => {
  it('has fixtures', () => {
    expect(networks.length).toBeGreaterThanOrEqual(2);
  });

  it.each([...networks, 'whisper_dtw.safetensors', 'whisper_timestamp_rules.safetensors'])(
    'passes for %s',
    async (name) => {
      const results = await check(fixturePath(name));
      expect(results.length).toBeGreaterThan(0);
      expect(results.filter(({ ok }) => !ok)).toEqual([]);
    },
  );

  it.each(networks)('checks every reference tensor of %s', async (name) => {
    const checked = (await check(fixturePath(name))).map(({ tensor }) => tensor);
    expect(checked).toEqual([
      'mel80',
      'mel128',
      'encoder_out',
      'prompt_logits',
      'cross_attn_qk',
      'cross_attn',
      'greedy20',
      'greedy20_suppressed',
      'exported encoder_out',
      'exported prompt_logits',
      'exported greedy20',
      'exported greedy20_suppressed',
    ]);
  });

  it.each([
    ['w.model.encoder.conv1.weight', 'encoder_out'],
    ['w.model.encoder.layers.1.self_attn.k_proj.weight', 'encoder_out'],
    ['w.model.encoder.layer_norm.bias', 'encoder_out'],
    ['w.model.decoder.layers.0.fc2.bias', 'prompt_logits'],
    ['w.model.decoder.embed_positions.weight', 'prompt_logits'],
    ['w.model.decoder.layers.1.encoder_attn.q_proj.weight', 'cross_attn_qk'],
  ])('fails when %s is changed', async (tensor, first) => {
    const results = await check(changed(networks[1], tensor, 1, 0.5));
    const failed = results.filter(({ ok }) => !ok).map((result) => result.tensor);
    expect(failed).toContain(first);
  });

  it('fails when a mask of the timestamp rules is changed', async () => {
    const path = changed('whisper_timestamp_rules.safetensors', 'scores', 2 * 120 + 30, 50);
    expect((await check(path)).every(({ ok }) => ok)).toBe(false);
  });
});
