/** The commands, on a tiny model. */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fixturePath, tinyChatTemplate, writeTinyLanguageModel } from '@mlx-runners/test-fixtures';
import { afterAll, describe, expect, it } from 'vitest';
import { runCli, startCli } from './run-cli.js';

const folder = mkdtempSync(join(tmpdir(), 'llm-cli-'));
afterAll(() => rmSync(folder, { recursive: true }));
const model = writeTinyLanguageModel(join(folder, 'model'), { template: tinyChatTemplate });
const base = writeTinyLanguageModel(join(folder, 'base'));

interface Remembered {
  text: string;
  usage: { cached_tokens: number };
}

function llm(args: readonly string[], input = '') {
  return runCli(args, { cwd: folder, input });
}

describe('generate', () => {
  const given = ['generate', '-m', model, '--temperature', '0', '--max-tokens', '8'];

  it('prints the text on stdout and the timing on stderr', () => {
    const { code, out, err } = llm([...given, '--prompt', '123']);
    expect(code).toBe(0);
    expect(out).toMatch(/^.+\n$/);
    expect(err).toMatch(
      /^6 tokens of prompt in [\d.]+ s \([\d.]+\/s\), \d+ of text in [\d.]+ s.*\n$/,
    );
  });

  it('prints JSON and nothing else', () => {
    const { out, err } = llm([...given, '--prompt', '123', '--json', '--quiet', '--logprobs']);
    const json = JSON.parse(out) as { tokens: number[]; logprobs: number[] };
    expect(json).toMatchObject({ finish_reason: 'length', usage: { completion_tokens: 8 } });
    expect(json.logprobs).toHaveLength(json.tokens.length);
    expect(err).toBe('');
  });

  it('reads the prompt from standard input', () => {
    const typed = llm([...given, '--prompt', '123', '--quiet']);
    expect(llm([...given, '--prompt', '-', '--quiet'], '123\n')).toEqual(typed);
    expect(llm([...given, '-', '--quiet'], '123\n')).toEqual(typed);
    expect(llm([...given, '--prompt', '-'], '').code).toBe(2);
  });

  it('takes the prompt as an argument', () => {
    const named = llm([...given, '--prompt', '123', '--quiet']);
    expect(llm([...given, '123', '--quiet'])).toEqual(named);
  });

  it('takes any integer as a seed, modulo 2^64', () => {
    const seeded = (seed: string) =>
      llm([...given.slice(0, 3), '123', '--max-tokens', '8', '--quiet', '--seed', seed]);
    expect(seeded('-1')).toEqual(seeded(String(2n ** 64n - 1n)));
    expect(seeded(String(2n ** 64n + 7n))).toEqual(seeded('7'));
    expect(seeded('7').code).toBe(0);
  });

  it('continues a text without the template', () => {
    const raw = llm([...given, '--prompt', '123', '--no-chat-template', '--quiet']);
    expect(llm(['generate', '-m', base, ...given.slice(3), '--prompt', '123', '--quiet'])).toEqual(
      raw,
    );
    expect(llm([...given, '--prompt', '123', '--quiet'])).not.toEqual(raw);
  });

  it.each([
    [['generate', '-m', model], /^error: There is no prompt: llm generate "/],
    [[...given, '1', '--prompt', '2'], /^error: There are two prompts: give one/],
    [[...given, ''], /^error: The prompt must be a text that is not empty/],
    [[...given, '1', '--top-p', 'x'], /^error: --top-p must be a number; got 'x'\./],
    [[...given, '1', '--logit-bias', '5'], /^error: --logit-bias must be pairs/],
    [[...given, '1', '--seed', '1.5'], /^error: --seed must be a whole number; got '1\.5'/],
    [[...given, '1', '--logprobs'], /^error: --logprobs goes with --json/],
    [['generate', '-m', base, '--prompt', '1', '--system', '2'], /this model has no chat template/],
  ])('refuses %j', (args, message) => {
    const { code, out, err } = llm(args);
    expect([code, out]).toEqual([2, '']);
    expect(err).toMatch(message);
  });

  it.each([
    ['--temperature', '-1', /^error: --temperature must be a number of 0 or more, not -1/],
    ['--top-p', '2', /^error: --top-p must be a number from 0 to 1, not 2/],
    ['--logit-bias', '1=500', /^error: --logit-bias of token 1 must be from -100 to 100/],
    ['--xtc-threshold', '0.6', /^error: --xtc-threshold must be a number from 0 to 0\.5/],
  ])('refuses %s %s before it looks for the model', (flag, value, message) => {
    for (const command of [['generate', '1'], ['chat'], ['batch', '1']]) {
      const { code, err } = llm([...command, '-m', './none', flag, value]);
      expect(code).toBe(2);
      expect(err).toMatch(message);
    }
  });

  it('remembers a prompt in a file', () => {
    const cached = () =>
      llm([...given, '123', '--prompt-cache', 'prompt.cache', '--json', '--quiet']).out;
    const [first, second] = [cached(), cached()].map((out) => JSON.parse(out) as Remembered);
    expect(first.usage.cached_tokens).toBe(0);
    expect(second.usage.cached_tokens).toBeGreaterThan(0);
    expect(second.text).toBe(first.text);
  });

  it('says what to do about a prompt cache that is none, or that has no folder', () => {
    writeFileSync(join(folder, 'other.cache'), 'something else');
    const other = llm([...given, '123', '--prompt-cache', 'other.cache']);
    expect([other.code, other.out]).toEqual([1, '']);
    expect(other.err).toMatch(
      /other\.cache .* Remove it, or give --prompt-cache another name\.\n$/,
    );
    const nowhere = llm([...given, '123', '--prompt-cache', 'nowhere/prompt.cache']);
    expect([nowhere.code, nowhere.out]).toEqual([1, '']);
    expect(nowhere.err).toMatch(/^error: --prompt-cache is to be in .*nowhere, which is no folder/);
    expect(existsSync(join(folder, 'nowhere'))).toBe(false);
  });

  it('lists what may be set of drawing tokens, and what is usual', () => {
    const help = llm(['generate', '--help']).out.replace(/\s+/g, ' ');
    for (const [flag, usual] of [
      ['--temperature <t>', '0.7 unless given or recommended by the model'],
      ['--top-k <n>', '0 (all) unless given or recommended by the model'],
      ['--top-p <p>', '1 (all) unless given or recommended by the model'],
      ['--min-p <p>', '0 (none) unless given or recommended by the model'],
      ['--typical-p <p>', '1 (all) unless given'],
      ['--xtc-probability <p>', '0 unless given'],
      ['--repetition-penalty <x>', '1 (none) unless given or recommended by the model'],
      ['--presence-penalty <x>', '0 (none) unless given'],
      ['--seed <n>', 'a new one unless given'],
    ]) {
      const [, about] = help.split(` ${flag} `);
      expect(about.split(' --')[0]).toContain(usual);
    }
  });

  it('says that a model is not there', () => {
    const { code, err } = llm(['generate', '-m', './none', '--prompt', '1']);
    expect(code).toBe(1);
    expect(err).toMatch(/^error: .*none/);
  });
});

describe('chat', () => {
  const given = ['chat', '-m', model, '--temperature', '0', '--max-tokens', '4'];

  it('answers each line, takes back and forgets', () => {
    const { code, out, err } = llm(
      given,
      '12\n/undo\n12\n/undo 2\n/reset\n/nothing\n12\n/exit\n34\n',
    );
    const answers = out.trimEnd().split('\n');
    expect(code).toBe(0);
    expect(answers).toHaveLength(3);
    expect(out).toBe(`${answers.join('\n')}\n`);
    expect(new Set(answers).size).toBe(1);
    expect(err).toContain('[took back 1, 0 messages left]');
    expect(err).toContain('[cleared]');
    expect(err).toContain('error: There is no /nothing: /help shows what there is.');
  });

  it('prints JSON as generate does, a line for each answer', () => {
    const json = (args: readonly string[], input = '') =>
      llm([...args, '--json', '--quiet'], input)
        .out.trim()
        .split('\n')
        .map((line) => JSON.parse(line) as { text: string; tokens: number[] });
    const answers = json(given, '1\n2\n');
    const [{ text, tokens }] = json(['generate', ...given.slice(1), '1']);
    expect(answers).toHaveLength(2);
    expect(answers[0]).toMatchObject({ text, tokens, finish_reason: 'length' });
    const [stopped] = json([...given, '--stop', text.slice(0, 1)], '1\n');
    expect(stopped).toMatchObject({ text: '', finish_reason: 'stop', stop: text.slice(0, 1) });
  });

  it('says why an answer is cut, and how to go on where the context is full', () => {
    expect(llm(given, '1\n').err).toMatch(/^\[cut: --max-tokens\]$/m);
    const short = ['chat', '-m', model, '--temperature', '0', '--ignore-stop-ids'];
    const { code, out, err } = llm([...short, '--max-context-len', '16'], '1\n2\n/reset\n1\n');
    const [first, again, ...rest] = out.trimEnd().split('\n');
    expect(code).toBe(0);
    expect([again, rest]).toEqual([first, []]);
    expect(err).toMatch(/^\[cut: the context is full: \/undo or \/reset\]$/m);
    expect(err).toMatch(
      /^error: The prompt has \d+ tokens, more than the 16 that.* \/undo or \/reset makes room\.$/m,
    );
  });

  it('ends at /exit though its input stays open', async () => {
    const { child, ended } = startCli([...given, '--quiet'], { cwd: folder });
    child.stdin!.write('1\n/exit\n');
    const { code, out } = await ended;
    expect(code).toBe(0);
    expect(out).not.toBe('');
  });

  it('needs a chat template', () => {
    expect(llm(['chat', '-m', base], '1\n')).toMatchObject({ code: 2 });
  });
});

describe('batch', () => {
  const given = ['batch', '-m', model, '--temperature', '0', '--max-tokens', '8', '--quiet'];
  const alone = (prompt: string): string =>
    llm(['generate', ...given.slice(1), '--prompt', prompt]).out.trimEnd();

  it('prints a line of JSON for each prompt, in their order', () => {
    const { code, out } = llm([...given, '123', '45', '6', '--max-decode-sequences', '2']);
    const lines = out.trim().split('\n');
    const answers = lines.map((line) => JSON.parse(line) as { id: number; text: string });
    expect(code).toBe(0);
    expect(answers.map(({ id }) => id)).toEqual([0, 1, 2]);
    expect(answers.map(({ text }) => text)).toEqual(['123', '45', '6'].map(alone));
  });

  it('reads requests from a file, and writes a file for each', () => {
    const requests = [
      { id: 'a/b', prompt: '123' },
      { id: 7, messages: [{ role: 'user', content: '45' }] },
    ];
    const lines = requests.map((request) => `${JSON.stringify(request)}\n`);
    writeFileSync(join(folder, 'prompts.jsonl'), lines.join(''));
    const { code, out } = llm([...given, '--input', 'prompts.jsonl', '-o', 'answers']);
    expect([code, out]).toEqual([0, '']);
    const written = (name: string): string =>
      readFileSync(join(folder, 'answers', name), 'utf8').trimEnd();
    expect(written('a_b.txt')).toBe(alone('123'));
    expect(written('7.txt')).toBe(alone('45'));
  });

  it('answers the others where one is too long', () => {
    const long = '1'.repeat(300);
    const { code, out, err } = llm([...given, long, '45']);
    const [first, second] = out
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as object);
    expect(code).toBe(1);
    expect(first).toMatchObject({ id: 0, error: { code: 'USAGE' } });
    expect(second).toMatchObject({ id: 1, text: alone('45') });
    expect(err).toMatch(/^error: prompt 0: The prompt has 30\d tokens/);
  });

  it.each([
    [[], '', /There are no prompts/],
    [['--input', 'empty.txt'], '', /There are no prompts in empty\.txt/],
    [['--input', '-'], '{"prompt": 5}', /Line 1 of standard input: prompt must be a text/],
    [['--input', '-'], '{"promt": "5"}', /has the unknown key "promt": did you mean prompt\?/],
    [['--input', '-'], '\n{"id": 5}', /Line 2 of standard input needs either "prompt" or "mess/],
    [['--input', '-'], '{"prompt": ', /Line 1 of standard input is not JSON: /],
    [
      ['--input', '-', '-o', 'refused'],
      '{"id": "a/b", "prompt": "1"}\n{"id": "A_b", "prompt": "2"}',
      /The prompts "a\/b" and "A_b" would both be written as A_b\.txt/,
    ],
    [
      ['--input', '-'],
      '{"id": 1, "prompt": "1"}\n{"id": 1, "prompt": "2"}',
      /Two prompts have the id 1/,
    ],
  ])('refuses %j with %j', (args, input, message) => {
    writeFileSync(join(folder, 'empty.txt'), '');
    const { code, out, err } = llm([...given, ...args], input);
    expect([code, out]).toEqual([2, '']);
    expect(err).toMatch(message);
    expect(existsSync(join(folder, 'refused'))).toBe(false);
  });
});

it('tells the perplexity of a text file', () => {
  writeFileSync(join(folder, 'text.txt'), '1234567012345670\n');
  const { code, out } = llm(['perplexity', 'text.txt', '-m', model, '--json', '--quiet']);
  expect(code).toBe(0);
  expect(JSON.parse(out)).toMatchObject({ tokens: 15 });
  expect(llm(['perplexity', 'none.txt', '-m', model]).code).toBe(1);
});

describe('convert', () => {
  const text = (path: string) =>
    llm(
      ['generate', '-m', path, '--prompt', '123', '--temperature', '0', '--max-tokens', '8'].concat(
        '--quiet',
      ),
    ).out;

  it('writes a folder that gives the same text', () => {
    const { code, out, err } = llm(['convert', '-m', model, '--out', 'same', '--dtype', 'float32']);
    expect(code).toBe(0);
    expect(out).toMatch(/^\d+ tensors, [\d.]+ kB\n$/);
    expect(err).toMatch(/^converting .*\nconverted in [\d.]+ s\n$/);
    expect(text(join(folder, 'same'))).toBe(text(model));
  });

  it('packs matrices and makes plain numbers of them', () => {
    const packing = ['--quantize', '--q-bits', '8', '--q-group-size', '32'];
    const packed = llm([
      'convert',
      '-m',
      model,
      '--out',
      'packed',
      ...packing,
      '--json',
      '--quiet',
    ]);
    const json = JSON.parse(packed.out) as { packedLayers: number };
    expect(json.packedLayers).toBeGreaterThan(0);
    expect(packed.err).toBe('');
    const plain = llm(['convert', '-m', 'packed', '--out', 'plain', '--dequantize']);
    expect(plain.out).not.toContain('packed');
    expect(text(join(folder, 'packed'))).not.toBe('');
    expect(text(join(folder, 'plain'))).not.toBe('');
  });

  it.each([
    [['--q-bits', '4'], 2, /^error: --q-bits, --q-group-size and --q-mode go with --quantize\./],
    [['-q', '--q-bits', '7'], 2, /^error: affine has 2, 3, 4, 5, 6, 8 bits/],
    [['-q', '-d'], 2, /^error: .*quantize and dequantize, not both/],
    [['--q-mode', 'int8'], 2, /^error: /],
  ])('refuses %j', (args, code, message) => {
    const given = llm(['convert', '-m', model, '--out', 'refused', '--quiet', ...args]);
    expect(given.code).toBe(code);
    expect(given.err).toMatch(message);
    expect(existsSync(join(folder, 'refused'))).toBe(false);
  });
});

it('holds goldens against what it computes', () => {
  const files = ['tiny_gemma3.safetensors', 'tiny_qwen2.safetensors'].map(fixturePath);
  const { code, out } = llm(['golden', ...files]);
  expect(out).toContain('2 of 2 goldens ok');
  expect(code).toBe(0);
});
