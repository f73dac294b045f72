import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { encodeWav } from '@mlx-runners/speech';
import { speechPath, whiteNoise } from '@mlx-runners/test-fixtures';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runCli, startCli, type CliResult } from './run-cli.js';
import { huggingFaceFiles } from './tiny-model.js';

const folder = mkdtempSync(join(tmpdir(), 'whisper-usage-'));
afterAll(() => rmSync(folder, { recursive: true }));

writeFileSync(join(folder, 'input.txt'), '');

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
    [['--output-dir', 'o', 'a/x.wav', 'b/x.wav'], /Two inputs would be written as x/],
    [['--no-speech-threshold', '2', 'a.wav'], /--no-speech-threshold must be a number/],
    [['--temperature', '1e999', 'a.wav'], /--temperature must be a number/],
    [['--best-of', '0', 'a.wav'], /--best-of must be a whole number from 1 to 64; got '0'/],
    [['--seed', '-1', 'a.wav'], /--seed must be a whole number from 0 to 4294967295/],
    [['--seed', '99999999999999999999', 'a.wav'], /--seed must be a whole number/],
    [['--json', '--output-format', 'srt', 'a.wav'], /--json and --output-format srt both/],
    [['--output-format', 'all', 'a.wav'], /All formats can't share stdout/],
    [['--output-format', 'srt', 'a.wav', 'b.wav'], /srt of several inputs can't share/],
    [['--temperature', '0,hot', 'a.wav'], /or a list of them; got '0,hot'/],
    [['mdoels', 'list'], /no file 'mdoels': did you mean the command models\?/],
    [['transcribe', 'a.wav'], /no file 'transcribe': files to transcribe are given without/],
    [['/dev/stdin', '-'], /Standard input can be read only once/],
    [['-', '-'], /Standard input can be read only once/],
    [['--output-dir', '.', 'input.txt'], /input\.txt would be written over an input/],
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

  it('looks at its inputs before it looks for a model', () => {
    writeFileSync(join(folder, 'empty.wav'), '');
    const names = ['none.wav', 'empty.wav', '.', 'new\nline\u001b[31m.wav'];
    const { code, out, err } = whisper(['--model', 'nobody/nothing', ...names]);
    expect([code, out]).toEqual([1, '']);
    expect(err.trimEnd().split('\n')).toEqual([
      expect.stringMatching(/^error: Cannot read .*none\.wav': there is no such file\.$/),
      expect.stringMatching(/^error: '.*empty\.wav': The audio is empty \(0 bytes\)\.$/),
      expect.stringMatching(/^error: Cannot read .*: it is a folder\.$/),
      expect.stringMatching(/^error: Cannot read .*new line\\u001b\[31m\.wav': there is no such/),
    ]);
  });

  it('fetches no addresses', () => {
    const { code, err } = whisper(['https://example.org/a.wav']);
    expect(code).toBe(1);
    expect(err).toMatch(/^error: .*'https:\/\/example\.org\/a\.wav': only files are read/);
  });

  it.each([
    ['--verbose', {}],
    ['--quiet', { DEBUG: '1' }],
  ])('shows where the error of a file comes from, asked by %s %j', (option, env) => {
    const { err } = whisper([option, 'none.wav'], env);
    expect(err).toMatch(/^error: .*none\.wav.*\nAudioError: .*\n +at .*\n(.*\n)*caused by Error/);
  });

  it('takes the short names of models, and says which was meant', () => {
    const model = (name: string): string =>
      whisper(['-m', name, speechPath()], {
        HF_HUB_OFFLINE: '1',
        HF_HUB_CACHE: folder,
        MLX_RUNNERS_CACHE: folder,
      }).err;
    expect(model('turbo')).toMatch(/^error: openai\/whisper-large-v3-turbo at /);
    expect(model('whisper-bse')).toContain('Did you mean whisper-base?');
  });

  it.each([
    [['golden', speechPath()], /jfk\.wav is no golden: those are \.safetensors or \.json/],
    [['golden', 'none.json'], /none\.json can't be read: there is no such file/],
  ])('refuses %j with one line and exit code 1', (args, message) => {
    const { code, err } = whisper(args);
    expect(code).toBe(1);
    expect(err).toMatch(message);
    expect(err.trim().split('\n')).toHaveLength(1);
  });
});

// What it says is nonsense, but everything around it is as with real weights.
describe('whisper, with a tiny model', () => {
  const signal = whiteNoise(1, { seed: 3 }).map((x, i) => x * (Math.floor(i / 800) % 2));
  const wav = encodeWav({ samples: [signal], sampleRate: 16_000 });
  // Hours of work: only an interrupt ends it.
  const long = (): Uint8Array => {
    const samples = new Float32Array(16_000 * 600);
    for (let at = 0; at < samples.length; at += signal.length) samples.set(signal, at);
    return encodeWav({ samples: [samples], sampleRate: 16_000 });
  };
  const options = ['--model', './tiny', '--device', 'cpu', '--temperature', '0'];

  beforeAll(() => {
    mkdirSync(join(folder, 'tiny'));
    for (const [name, bytes] of Object.entries(huggingFaceFiles())) {
      writeFileSync(join(folder, 'tiny', name), bytes);
    }
    writeFileSync(join(folder, 'noise.wav'), wav);
    writeFileSync(
      join(folder, 'nothing.wav'),
      encodeWav({ samples: [new Float32Array()], sampleRate: 16_000 }),
    );
    writeFileSync(join(folder, 'long.wav'), long());
  });

  it('goes on after a bad file, and tells of it in JSON too', () => {
    const { code, out, err } = whisper([...options, '--json', 'none.wav', 'noise.wav', 'tiny']);
    expect(code).toBe(1);
    const lines = out.trimEnd().split('\n');
    expect(lines.map((line) => JSON.parse(line) as unknown)).toEqual([
      { file: 'none.wav', error: { code: 'AUDIO', message: expect.any(String) as string } },
      { file: 'tiny', error: { code: 'AUDIO', message: expect.any(String) as string } },
      expect.objectContaining({ file: 'noise.wav', language: 'en', duration: 1 }),
    ]);
    expect(err.match(/^error: /gm)).toHaveLength(2);
  });

  it('tells a damaged file when it comes to it, and goes on', () => {
    writeFileSync(join(folder, 'cut.wav'), wav.subarray(0, 30));
    const args = ['--output-dir', 'out', '--quiet', 'cut.wav', 'noise.wav'];
    const { code, out, err } = whisper([...options, ...args]);
    expect([code, out]).toEqual([1, '']);
    expect(err).toMatch(/^error: '.*cut\.wav': The WAV file/);
    expect(readdirSync(join(folder, 'out'))).toEqual(['noise.txt']);
  });

  it('gives nothing for a recording of no length, which is no failure', () => {
    const { code, out } = whisper([...options, '--json', '--quiet', 'nothing.wav']);
    expect(code).toBe(0);
    expect(JSON.parse(out)).toMatchObject({ text: '', duration: 0, segments: [] });
  });

  it.each([
    ['-', 'standard input'],
    ['/dev/stdin', 'standard input'],
  ])('reads standard input as %s', (name, label) => {
    const file = whisper([...options, '--quiet', 'noise.wav']);
    expect(file.out).not.toBe('');
    const { code, out, err } = runCli([...options, name], { cwd: folder, input: wav });
    expect({ code, out }).toEqual({ code: 0, out: file.out });
    expect(err).toMatch(new RegExp(`^${label}: 1\\.0 s of audio`));
  });

  it.each([
    ['nothing', new Uint8Array(), /^error: standard input: The audio is empty/m],
    [
      'text',
      Buffer.from('hello '.repeat(1000)),
      /^error: standard input: This is no known audio format/m,
    ],
  ])('refuses standard input of %s', (_, input, message) => {
    const { code, err } = runCli([...options, '-'], { cwd: folder, input });
    expect(code).toBe(1);
    expect(err).toMatch(message);
  });

  it('takes several temperatures, and warns of a dtype that is slow on the CPU', () => {
    const { code, err } = whisper([
      ...options.slice(0, 4),
      ...['--temperature', '0,0.5', '--dtype', 'float16', '-l', 'en', 'noise.wav'],
    ]);
    expect(code).toBe(0);
    expect(err).toMatch(/^warning: float16 on the CPU is many times slower than float32\.$/m);
  });

  it('refuses a folder to write to that is a file, before the model is loaded', () => {
    const { code, err } = whisper(['--model', 'a/b', '--output-dir', 'noise.wav', 'noise.wav']);
    expect(code).toBe(1);
    expect(err).toMatch(/noise\.wav can't be written: it is a file where a folder is needed\.\n$/);
  });

  it('names what a model folder lacks', () => {
    mkdirSync(join(folder, 'bare'), { recursive: true });
    const { code, err } = whisper(['--model', './bare', 'noise.wav']);
    expect(code).toBe(1);
    expect(err).toMatch(
      /bare lacks tokenizer\.json and config\.json and the weights: a model folder/,
    );
  });

  it.each([
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ] as const)('%s ends the wait for a pipe that nobody writes to', async (signal, code) => {
    const pipe = `pipe-${signal}`;
    expect(spawnSync('mkfifo', [join(folder, pipe)]).status).toBe(0);
    const { child, ended } = startCli([...options, 'noise.wav', pipe], { cwd: folder });
    await once(child.stdout!, 'data'); // the first is done, so that it waits for the second
    child.kill(signal);
    expect(await ended).toMatchObject({ code });
  });

  it('SIGINT ends the wait for standard input', async () => {
    const { child, ended } = startCli([...options, 'noise.wav', '-'], { cwd: folder });
    await once(child.stdout!, 'data');
    child.kill('SIGINT');
    expect(await ended).toMatchObject({ code: 130 });
  });

  it('SIGINT ends a transcription without a word, and leaves nothing half-written', async () => {
    const args = ['--json', '--quiet', '--output-dir', 'interrupted', 'noise.wav', 'long.wav'];
    const { child, ended } = startCli([...options, ...args], { cwd: folder });
    await once(child.stdout!, 'data');
    child.kill('SIGINT');
    expect(await ended).toMatchObject({ code: 130, err: '' });
    expect(readdirSync(join(folder, 'interrupted'))).toEqual(['noise.txt']);
  });
});
