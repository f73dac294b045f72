/** Real models answer: in every runner.json's model that can be had here. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { runCli } from '../test/run-cli.js';
import { loadOrSkip } from './weights.js';

const question = 'What is the capital of France?';
const folder = mkdtempSync(join(tmpdir(), 'llm-answers-'));
afterAll(() => rmSync(folder, { recursive: true }));

function llm(args: readonly string[]) {
  return runCli([...args, '--temperature', '0', '--max-tokens', '50'], { cwd: folder });
}

describe.each(['smollm2', 'llama-3.2-1b', 'qwen3-0.6b', 'gemma-3-1b'])('%s', async (id) => {
  const model = await loadOrSkip(id);
  await model?.dispose();

  it('knows the capital of France', () => {
    const { code, out } = llm(['generate', '-m', id, '--prompt', question]);
    expect(code).toBe(0);
    expect(out.toLowerCase()).toContain('paris');
  });
});

describe('smollm2', async () => {
  const model = await loadOrSkip('smollm2');
  await model?.dispose();

  it('answers two prompts of a batch as it answers each alone', () => {
    const prompts = [question, 'What color do you get when you mix blue and yellow?'];
    const { code, out } = llm(['batch', ...prompts, '--max-decode-sequences', '2']);
    expect(code).toBe(0);
    const answers = out
      .trim()
      .split('\n')
      .map((line) => (JSON.parse(line) as { text: string }).text);
    const alone = prompts.map((prompt) => llm(['generate', '--prompt', prompt]).out.trimEnd());
    expect(answers).toEqual(alone);
    expect(answers[0]).toContain('Paris');
  });

  it('answers as an export, its cache off-graph and in-graph', () => {
    for (const cache of ['off-graph', 'in-graph']) {
      const given = ['export', '--out', cache, '--cache', cache, '--max-context-len', '256'];
      expect(runCli(given, { cwd: folder }).code).toBe(0);
      const { out } = llm(['generate', '-m', `./${cache}`, '--prompt', question]);
      expect(out).toContain('Paris');
    }
  });
});
