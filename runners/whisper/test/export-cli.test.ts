import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { exportModel } from '@mlx-runners/program';
import { afterAll, describe, expect, it } from 'vitest';
import { tinyForExport } from '../src/export-subject.js';
import { runCli, type CliResult } from './run-cli.js';

const folder = mkdtempSync(join(tmpdir(), 'whisper-export-cli-'));
afterAll(() => rmSync(folder, { recursive: true }));

const whisper = (...args: string[]): CliResult => runCli(args, { cwd: folder });

describe('whisper', () => {
  it('export-check: a small model passes, within the budgets of runner.json', () => {
    const { code, out, err } = whisper('export-check', '--json');
    expect({ code, err }).toEqual({ code: 0, err: '' });
    const { ok, findings } = JSON.parse(out) as { ok: boolean; findings: { what: string }[] };
    expect(ok).toBe(true);
    const checked = findings.map(({ what }) => what);
    for (const method of ['preprocess', 'encode', 'cross_kv', 'decode']) {
      expect(checked).toContain(`${method}: instructions`);
      expect(checked).toContain(`${method}: astype`);
      expect(checked.some((what) => what.startsWith(`${method}: results at`))).toBe(true);
    }
  });

  it('inspect: shows methods, or says what is wrong', async () => {
    await exportModel(join(folder, 'model'), tinyForExport().description);
    const { code, out } = whisper('inspect', 'model');
    expect(code).toBe(0);
    expect(out).toContain(
      'decode(ids: int32[1, T], positions: int32[P]) → logits: float32[1, P, 60]',
    );
    expect(out).toContain('  T 1 to 1; past 0 to 23; P 1 to 1');
    expect(out).toContain('contextLength: 24');
    expect(JSON.parse(whisper('inspect', 'model', '--json').out)).toMatchObject({
      methods: { decode: { traces: [{ instructions: 167 }, { instructions: 204 }] } },
    });
    expect(whisper('inspect', 'nowhere')).toMatchObject({
      code: 1,
      err: `error: ${join(folder, 'nowhere/manifest.json')} can't be read: there is no such file.\n`,
    });
  });

  it('export: needs a folder to write', () => {
    expect(whisper('export')).toMatchObject({ code: 2, out: '' });
  });
});
