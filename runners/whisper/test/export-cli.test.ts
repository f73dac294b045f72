import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { exportModel, type Manifest } from '@mlx-runners/program';
import { encodeWav } from '@mlx-runners/speech';
import { whiteNoise } from '@mlx-runners/test-fixtures';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { tinyForExport } from '../src/export-subject.js';
import { runCli, type CliResult } from './run-cli.js';
import { huggingFaceFiles } from './tiny-model.js';

const folder = mkdtempSync(join(tmpdir(), 'whisper-export-cli-'));
afterAll(() => rmSync(folder, { recursive: true }));

const whisper = (...args: string[]): CliResult => runCli(args, { cwd: folder });

// Noise that comes and goes counts as speech.
const speechLike = whiteNoise(1, { seed: 3 }).map((x, i) => x * (Math.floor(i / 800) % 2));

beforeAll(async () => {
  mkdirSync(join(folder, 'original'));
  for (const [name, bytes] of Object.entries(huggingFaceFiles())) {
    writeFileSync(join(folder, 'original', name), bytes);
  }
  writeFileSync(
    join(folder, 'noise.wav'),
    encodeWav({ samples: [speechLike], sampleRate: 16_000 }),
  );
  await exportModel(join(folder, 'model'), tinyForExport().description);
  expect(whisper('export', '-m', './original', '--out', 'exported')).toMatchObject({ code: 0 });
});

describe('whisper export-check', () => {
  it.each([
    '',
    '--qlinear 4w',
    '--qlinear 8w --qlinear-group-size 128',
    '--dtype bfloat16',
    '--dtype float16 --qlinear 8w',
    '--qlinear mxfp4 --qlinear-encoder 8w --qembedding nvfp4',
    '--dtype bfloat16 --qlinear nvfp4 --qembedding 8w --qembedding-group-size 128',
  ])('passes a small model, within the budgets of runner.json: %s', (options) => {
    const args = options.split(' ').filter(Boolean);
    const { code, out, err } = whisper('export-check', '--json', ...args);
    const { ok, findings } = JSON.parse(out) as { ok: boolean; findings: { what: string }[] };
    expect({ code, err, ok }).toEqual({ code: 0, err: '', ok: true });
    const checked = findings.map(({ what }) => what);
    for (const trace of [
      'preprocess',
      'encode',
      'cross_kv',
      'decode, trace 1',
      'decode, trace 2',
    ]) {
      expect(checked).toContain(`${trace}: instructions`);
      expect(checked).toContain(`${trace}: astype`);
    }
    for (const method of ['preprocess', 'encode', 'cross_kv', 'decode']) {
      const results = checked.filter((what) => what.startsWith(`${method}: results at`));
      expect(results).toHaveLength(method === 'decode' ? 4 : 2);
    }
    expect(checked).toContain('bytes of all files');
  });

  it('has no budgets for models with other numbers of layers', () => {
    const { code, out } = whisper('export-check', '-m', './original');
    expect(code).toBe(0);
    expect(out).not.toContain('instructions');
    expect(out).toContain('decode, trace 1: astype');
  });
});

describe('whisper inspect', () => {
  it('shows methods', () => {
    const { code, out } = whisper('inspect', 'model');
    expect(code).toBe(0);
    expect(out).toContain(
      'decode(ids: int32[1, T], positions: int32[P]) → logits: float32[1, P, 60]',
    );
    expect(out).toContain('  T 1 to 1; past 0 to 23; P 1 to 1');
    expect(out).toContain('contextLength: 24');
    expect(JSON.parse(whisper('inspect', 'model', '--json').out)).toMatchObject({
      methods: { decode: { traces: [{ instructions: 149 }, { instructions: 174 }] } },
    });
  });

  it('--verify: holds all files against their checksums', async () => {
    const damaged = join(folder, 'damaged');
    await exportModel(damaged, tinyForExport().description);
    const verified = whisper('inspect', '--verify', 'damaged');
    expect(verified).toMatchObject({ code: 0, err: '' });
    expect(verified.out).toMatch(/\d+ files, all as they were exported\n$/);
    const weights = readFileSync(join(damaged, 'weights.safetensors'));
    weights[weights.length - 1] ^= 1;
    writeFileSync(join(damaged, 'weights.safetensors'), weights);
    expect(whisper('inspect', 'damaged').code).toBe(0);
    expect(whisper('inspect', '--verify', 'damaged')).toEqual({
      code: 1,
      out: '',
      err: `error: ${damaged}/weights.safetensors is not the file that was exported.\n`,
    });
  });

  it.each([
    ['nowhere', ' does not exist.'],
    ['original', ' holds a model\'s own files; "export --model" makes an export of them.'],
    ['noise.wav', ' is a file: an export is a folder.'],
    ['.', ' is no export: it has no manifest.json.'],
  ])('says what %s is', (name, message) => {
    const err = `error: ${join(folder, name)}${message}\n`;
    expect(whisper('inspect', name)).toEqual({ code: 1, out: '', err });
  });
});

describe('whisper export', () => {
  it('needs a folder to write', () => {
    expect(whisper('export')).toMatchObject({ code: 2, out: '' });
  });

  it.each([
    [['--qlinear-group-size', '32'], '--qlinear-group-size goes with --qlinear.'],
    [['--qlinear', 'nvfp4', '--qlinear-group-size', '32'], 'The group size of nvfp4 must be 16.'],
    [
      ['--qembedding', '4w', '--qembedding-group-size', '16'],
      'The group size of 4w must be 32, 64 or 128.',
    ],
  ])('refuses groups that there are not: %j', (args, message) => {
    expect(whisper('export', '-m', './original', '--out', 'again', ...args)).toEqual({
      code: 2,
      out: '',
      err: `error: ${message}\n`,
    });
  });

  it.each([
    [['export', '--out', 'again', '-m', './exported']],
    [['export', '--out', 'again', '-m', './exported', '--qlinear', '4w']],
    [['export-check', '-m', './exported']],
  ])('refuses an export: %j', (args) => {
    expect(whisper(...args)).toEqual({
      code: 2,
      out: '',
      err: `error: ${join(folder, 'exported')} is an export already: name the model that it was made from.\n`,
    });
  });

  it('writes down the name of a folder, not where it lies', () => {
    const text = readFileSync(join(folder, 'exported/manifest.json'), 'utf8');
    expect((JSON.parse(text) as Manifest).model).toEqual({ id: 'original' });
    expect(text).not.toContain(folder);
  });
});

describe('whisper --model EXPORT', () => {
  it('has the dtype of the export', () => {
    const run = (dtype: string): CliResult =>
      whisper('-m', './exported', '--dtype', dtype, '--quiet', 'noise.wav');
    expect(run('float32')).toMatchObject({ code: 0, err: '' });
    expect(run('bfloat16')).toEqual({
      code: 2,
      out: '',
      err: `error: ${join(folder, 'exported')} is an export in float32: for bfloat16 export the model once more.\n`,
    });
  });

  it('--profile: shows where the time goes, and needs an export', () => {
    const run = (model: string): CliResult =>
      whisper('-m', model, '--profile', '--quiet', '--language', 'en', 'noise.wav');
    const { code, err } = run('./exported');
    expect(code).toBe(0);
    expect(err).toMatch(
      /^encode, \d+ instructions: \d+ × [\d.]+ ms each, [\d.]+ ms of it beside ops/,
    );
    expect(err).toMatch(
      /^decode, \d+ instructions: (.*\n)+ {2}linear +\d+ +[\d.]+ +\d+ % +[\d.]+\n/m,
    );
    expect(run('./original')).toMatchObject({
      code: 2,
      out: '',
      err: expect.stringMatching(
        /^error: Only an export can be profiled, and ".*original" is none/,
      ) as string,
    });
  });

  it('names what half an export lacks', () => {
    mkdirSync(join(folder, 'half'));
    const manifest = readFileSync(join(folder, 'exported/manifest.json'));
    writeFileSync(join(folder, 'half/manifest.json'), manifest);
    const { code, err } = whisper('-m', './half', 'noise.wav');
    expect(code).toBe(1);
    expect(err).toMatch(/half\/programs\/\w+\.json can't be read: there is no such file\.\n$/);
  });
});
