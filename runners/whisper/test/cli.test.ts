import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { speechPath } from '@mlx-runners/test-fixtures';
import { runCli, type CliResult } from './run-cli.js';

const folder = mkdtempSync(join(tmpdir(), 'whisper-usage-'));
afterAll(() => rmSync(folder, { recursive: true }));

function whisper(args: string[], env: Record<string, string> = {}): CliResult {
  return runCli(args, { cwd: folder, env });
}

describe('whisper, without weights', () => {
  it('shows help and version where there is no native library', () => {
    const none = { MLX_RUNNERS_NATIVE: join(folder, 'nothing.node') };
    expect(whisper(['--help'], none)).toMatchObject({ code: 0, err: '' });
    expect(whisper(['--version'], none).out).toMatch(/^\d+\.\d+\.\d+\n$/);
  });

  it.each([
    [['--nonsense', 'a.wav'], /unknown option '--nonsense'/],
    [[], /missing required argument 'audio'/],
    [['--threads', 'many', 'a.wav'], /--threads must be a whole number/],
    [['--task', 'sing', 'a.wav'], /--task must be one of transcribe, translate/],
    [['--output-format', 'doc', 'a.wav'], /--output-format must be one of/],
    [['--output-dir', 'o', 'a/x.wav', 'b/x.wav'], /a\/x\.wav and b\/x\.wav would both be written/],
  ])('refuses %j with one line and exit code 2', (args, message) => {
    const { code, out, err } = whisper(args);
    expect(code).toBe(2);
    expect(out).toBe('');
    expect(err).toMatch(message);
    expect(err.trim().split('\n')).toHaveLength(1);
  });

  it('says that a model can not be found, with exit code 1', () => {
    const { code, err } = whisper(['--model', 'nobody/nothing', speechPath()], {
      HF_HUB_OFFLINE: '1',
    });
    expect(code).toBe(1);
    expect(err).toMatch(/^error: nobody\/nothing/);
  });
});
