/** Checkpoints of 16-bit floats, computed in float32 on the CPU and in their own dtype. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { mx } from '@mlx-runners/mlx-core';
import { LanguageModel } from '@mlx-runners/lm';
import { writeTinyLanguageModel } from '@mlx-runners/test-fixtures';
import { afterAll, describe, expect, it } from 'vitest';

const scratch = mkdtempSync(join(tmpdir(), 'lm-sixteen-bits-'));
afterAll(() => rmSync(scratch, { recursive: true }));

const prompt = Array.from({ length: 40 }, (_, i) => (i * 17 + 3) % 60);
const options = { temperature: 0, maxTokens: 20, ignoreStopIds: true };

/** The golden's folder, its weights rounded to a dtype and stored as `stored`. */
function rounded(golden: string, dtype: 'float16' | 'bfloat16', stored: 'float32' | typeof dtype) {
  const folder = writeTinyLanguageModel(join(scratch, golden, dtype, stored), { golden });
  const file = join(folder, 'model.safetensors');
  const { tensors } = mx.loadSafetensors(file);
  const weights = [...tensors].map(([name, x]) => [name, x.astype(dtype).astype(stored)] as const);
  mx.saveSafetensors(file, new Map(weights));
  return folder;
}

describe.each(['tiny_llama3', 'tiny_gemma3'])('%s', (golden) => {
  it.each(['float16', 'bfloat16'] as const)('of %s', async (dtype) => {
    await using expected = await LanguageModel.load(rounded(golden, dtype, 'float32'));
    await using packed = await LanguageModel.load(rounded(golden, dtype, dtype));
    const { text } = await expected.generate(prompt, options).result();
    expect((await packed.generate(prompt, options).result()).text).toBe(text);
    const nll = (model: LanguageModel) => model.perplexity(prompt);
    const [a, b] = [await nll(expected), await nll(packed)];
    expect(Math.abs(b.perplexity / a.perplexity - 1)).toBeLessThan(1e-4);
  });

  it('computed in bfloat16 is nearly the same', async () => {
    const folder = rounded(golden, 'bfloat16', 'bfloat16');
    await using exact = await LanguageModel.load(folder);
    await using halves = await LanguageModel.load(folder, { dtype: 'bfloat16' });
    const [a, b] = [await exact.perplexity(prompt), await halves.perplexity(prompt)];
    expect(b.perplexity).not.toBe(a.perplexity);
    expect(Math.abs(b.perplexity / a.perplexity - 1)).toBeLessThan(0.2);
  });
});
