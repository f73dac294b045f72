/** The commands, on a tiny checkpoint of llama2.c. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fixturePath, writeTinyLlama2c } from '@mlx-runners/test-fixtures';
import { afterAll, describe, expect, it } from 'vitest';
import { runCli } from './run-cli.js';

const folder = mkdtempSync(join(tmpdir(), 'stories110m-cli-'));
afterAll(() => rmSync(folder, { recursive: true }));
const model = writeTinyLlama2c(join(folder, 'model'));

function stories(args: readonly string[], input = '') {
  return runCli(args, { cwd: folder, input });
}

const greedy = ['--temperature', '0', '--ignore-stop-ids', '--quiet'];

describe('stories110m', () => {
  const given = ['-m', model, '--seq-len', '10', ...greedy];

  it('writes on after the beginning, with the spaces between words', () => {
    const { code, out } = stories([...given, '--logit-bias', '285=100']);
    expect([code, out]).toEqual([0, 'Once upon a time, w0 w0 w0 w0\n']);
  });

  it('counts the beginning in --seq-len', () => {
    const json = JSON.parse(stories([...given, '--json']).out) as {
      usage: Record<string, number>;
    };
    expect(json.usage).toMatchObject({ prompt_tokens: 6, completion_tokens: 4 });
    const { code, err } = stories([...given, '--seq-len', '6']);
    expect(code).toBe(2);
    expect(err).toMatch(/^error: The beginning has 6 tokens: --seq-len 6 leaves no room/);
  });

  it('takes the .pt file itself, and the beginning from standard input', () => {
    const file = ['-m', join(model, 'stories.pt'), '--seq-len', '10', ...greedy];
    expect(stories([...file, '--prompt', '-'], 'Once upon a time,')).toEqual(stories(given));
  });
});

describe('weights without a tokenizer', () => {
  const bare = writeTinyLlama2c(join(folder, 'bare'), { tokenizer: false });
  const named = ['--tokenizer', 'model/tokenizer.bin'];

  it('say where it is missing', () => {
    const { code, out, err } = stories(['-m', bare]);
    expect([code, out]).toEqual([1, '']);
    expect(err).toMatch(/^error: .*bare has no tokenizer.*name tokenizer\.model of .*llama2\.c/);
    const wrong = stories(['-m', bare, '--tokenizer', 'none.bin']);
    expect([wrong.code, wrong.err]).toEqual([
      1,
      `error: There is no tokenizer ${join(folder, 'none.bin')}.\n`,
    ]);
  });

  it('write with one that is named, as an export does that was made with it', () => {
    const at = (args: readonly string[]) => stories([...args, '--seq-len', '10', ...greedy]);
    const expected = at(['-m', model]);
    expect(at(['-m', bare, ...named])).toEqual(expected);
    const exported = stories(['export', '-m', bare, ...named, '--out', 'bare-exported']);
    expect(exported.code).toBe(0);
    expect(at(['-m', 'bare-exported'])).toEqual(expected);
  });
});

describe('export', () => {
  it('writes a folder that writes the same story', () => {
    const exported = stories(['export', '-m', model, '--out', 'exported']);
    expect(exported.code).toBe(0);
    expect(exported.out).toContain('bosId');
    expect(exported.err).toMatch(/^exporting .*\nwrote .*exported: stories110m -m .*exported\n$/);
    const at = (path: string) => stories(['-m', path, '--seq-len', '10', ...greedy]).out;
    expect(at('exported')).toBe(at(model));
    expect(stories(['inspect', 'exported', '--verify']).code).toBe(0);
  });

  it.each([[[]], [['--qlinear', '4w', '--qlinear-group-size', '32']]])('is checked: %j', (args) => {
    const { code, out } = stories(['export-check', ...args]);
    expect(out).not.toContain('FAILED');
    expect(code).toBe(0);
  });
});

it('holds goldens of Llamas against what it computes', () => {
  const { code, out } = stories(['golden', fixturePath('tiny_llama_tied.safetensors')]);
  expect(out).toContain('ok: 39 of 39 tensors');
  expect(code).toBe(0);
});
