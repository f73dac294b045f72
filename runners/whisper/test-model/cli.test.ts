import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { speechPath } from '@mlx-runners/test-fixtures';
import { runCli, type CliResult } from '../test/run-cli.js';
import { loadDefaultModel } from './weights.js';

const model = await loadDefaultModel();
await model?.dispose();

const folder = mkdtempSync(join(tmpdir(), 'whisper-cli-'));
afterAll(() => rmSync(folder, { recursive: true }));

function whisper(args: string[], env: Record<string, string> = {}): CliResult {
  return runCli(args, { cwd: folder, env });
}

describe('whisper', () => {
  it('prints the text on stdout and the timing on stderr', () => {
    const { code, out, err } = whisper([speechPath()]);
    expect(code).toBe(0);
    expect(out).toMatch(/^And so my fellow Americans,? ask not what .* for your country\.\n$/);
    expect(err).toMatch(/^jfk\.wav: 11\.0 s of audio \(en\) in [\d.]+ s, [\d.]+x real time\n$/);
  });

  it('prints JSON and nothing else', () => {
    const { out, err } = whisper(['--json', '--quiet', speechPath()]);
    expect(JSON.parse(out)).toMatchObject({ language: 'en', duration: 11 });
    expect(err).toBe('');
  });

  it('writes every format into a folder', () => {
    const { code } = whisper(['--output-dir', 'out', '--output-format', 'all', speechPath()]);
    expect(code).toBe(0);
    const files = readdirSync(join(folder, 'out')).sort();
    expect(files).toEqual(['jfk.json', 'jfk.srt', 'jfk.txt', 'jfk.vtt']);
    expect(readFileSync(join(folder, 'out', 'jfk.vtt'), 'utf8')).toMatch(/^WEBVTT\n/);
  });

  it('names the file that is no audio, with exit code 1, and writes nothing', () => {
    writeFileSync(join(folder, 'noise.bin'), Buffer.alloc(1000, 7));
    const { code, out, err } = whisper(['--output-dir', 'none', 'noise.bin']);
    expect([code, out]).toEqual([1, '']);
    expect(err).toMatch(/^error: '.*noise\.bin': This is no known audio format/);
    expect(readdirSync(folder)).not.toContain('none');
  });
});
