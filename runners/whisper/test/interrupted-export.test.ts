import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { verifyFiles } from '@mlx-runners/program';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runCli, startCli, type CliResult } from './run-cli.js';
import { huggingFaceFiles } from './tiny-model.js';

const folder = mkdtempSync(join(tmpdir(), 'whisper-interrupted-'));
afterAll(() => rmSync(folder, { recursive: true }));

const scratch = join(folder, 'tmp');

beforeAll(() => {
  for (const name of ['tiny', 'tmp']) mkdirSync(join(folder, name));
  for (const [name, bytes] of Object.entries(huggingFaceFiles())) {
    writeFileSync(join(folder, 'tiny', name), bytes);
  }
});

/** Runs a command that is interrupted when it comes to a file. */
function interrupted(at: string, signal: string, ...args: string[]): CliResult {
  const hook = pathToFileURL(join(import.meta.dirname, 'interrupting.mjs')).href;
  return runCli(args, {
    cwd: folder,
    env: {
      TMPDIR: scratch,
      NODE_OPTIONS: `--import=${hook}`,
      INTERRUPT_AT: at,
      INTERRUPT_WITH: signal,
    },
  });
}

describe('an interrupted export', () => {
  it.each([
    ['while the model is loaded', 'config.json', 'SIGINT', 130],
    ['while the model is loaded', 'config.json', 'SIGTERM', 143],
    ['while methods are traced', 'preprocessor_config.json', 'SIGINT', 130],
    ['while methods are traced', 'preprocessor_config.json', 'SIGTERM', 143],
  ])('%s (%s, %s) leaves nothing behind', (_, at, signal, code) => {
    const before = readdirSync(folder);
    const result = interrupted(at, signal, 'export', '-m', './tiny', '--out', 'new', '--quiet');
    expect(result).toEqual({ code, out: '', err: '' });
    expect(readdirSync(folder)).toEqual(before);
  });

  it('leaves an earlier export as it was', async () => {
    const args = ['export', '-m', './tiny', '--out', 'earlier', '--quiet', '--dtype'];
    expect(runCli([...args, 'float32'], { cwd: folder })).toMatchObject({ code: 0, err: '' });
    const after = interrupted('preprocessor_config.json', 'SIGINT', ...args, 'float16');
    expect(after.code).toBe(130);
    await verifyFiles(join(folder, 'earlier'));
    const { out } = runCli(['inspect', 'earlier'], { cwd: folder });
    expect(out).toMatch(/^tiny; float32; /);
    expect(readdirSync(folder).filter((name) => name.startsWith('earlier'))).toEqual(['earlier']);
  });
});

describe('an interrupted export-check', () => {
  it.each([
    ['config.json', 'SIGINT', 130],
    ['preprocessor_config.json', 'SIGTERM', 143],
  ])('at %s (%s) leaves nothing behind', (at, signal, code) => {
    const result = interrupted(at, signal, 'export-check', '-m', './tiny');
    expect(result).toEqual({ code, out: '', err: '' });
    expect(readdirSync(scratch)).toEqual([]);
  });

  it('leaves nothing behind while its child runs', async () => {
    const { child, ended } = startCli(['export-check'], { cwd: folder, env: { TMPDIR: scratch } });
    // What the child is given is there just before it is started.
    await appearance('inputs.safetensors');
    child.kill('SIGTERM');
    expect(await ended).toEqual({ code: 143, out: '', err: '' });
    expect(readdirSync(scratch)).toEqual([]);
  });
});

/** Waits until a file lies in a folder of the scratch folder. */
async function appearance(name: string): Promise<void> {
  const isThere = (): boolean =>
    readdirSync(scratch).some((each) => existsSync(join(scratch, each, name)));
  while (!isThere()) await setTimeout(5);
}
