import { Writable } from 'node:stream';
import { stripVTControlCharacters } from 'node:util';
import { audioProgress, downloadProgress } from '@mlx-runners/runner';
import { describe, expect, test } from 'vitest';

class Terminal extends Writable {
  readonly isTTY: boolean;
  written = '';

  constructor(isTTY = true) {
    super();
    this.isTTY = isTTY;
  }

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    this.written += chunk.toString();
    done();
  }

  get text(): string {
    return stripVTControlCharacters(this.written);
  }
}

describe('nothing is written', () => {
  test.each([
    ['where stderr is no terminal', new Terminal(false), false],
    ['with --quiet', new Terminal(), true],
  ])('%s', (_, stream, quiet) => {
    using progress = audioProgress('a.wav', { stream, quiet });
    progress.update(1, 2);
    progress.stop();
    expect(stream.written).toBe('');
  });

  test('before the first update', () => {
    const stream = new Terminal();
    downloadProgress({ stream }).stop();
    expect(stream.written).toBe('');
  });
});

test('audio is shown in time', () => {
  const stream = new Terminal();
  const progress = audioProgress('a.wav', { stream });
  progress.update(72, 180);
  progress.stop();
  expect(stream.text).toMatch(/^a\.wav █+░+ {2}40% 1:12 of 3:00/);
});

test('long audio is shown in hours', () => {
  const stream = new Terminal();
  using progress = audioProgress('a.wav', { stream });
  progress.update(3661.9, 7200);
  expect(stream.text).toContain('1:01:01 of 2:00:00');
});

test('downloads are shown in bytes, and without a bar while the total is unknown', () => {
  const stream = new Terminal();
  using progress = downloadProgress({ stream });
  progress.update({ file: 'config.json', bytes: 2300, totalBytes: 0 });
  expect(stream.text).toBe('config.json 2.3 kB');
  progress.stop();

  const other = new Terminal();
  using known = downloadProgress({ stream: other });
  known.update({ file: 'model.safetensors', bytes: 58_080_000, totalBytes: 145_200_000 });
  expect(other.text).toMatch(/^model\.safetensors █+░+ {2}40% 58\.1 of 145\.2 MB/);
});

test('stopping gives the cursor back, once, and ends all updates', () => {
  const stream = new Terminal();
  const progress = audioProgress('a.wav', { stream });
  progress.update(1, 2);
  progress.stop();
  const { written } = stream;
  expect(written.endsWith('\x1b[2K')).toBe(true);
  expect(written).toContain('\x1b[?25h');
  progress.stop();
  progress.update(2, 2);
  expect(stream.written).toBe(written);
});

test('odd amounts do no harm', () => {
  const stream = new Terminal();
  using progress = audioProgress('a.wav', { stream });
  progress.update(NaN, 2);
  progress.update(3, 2);
  progress.update(0, NaN);
  expect(stream.text).toMatch(/^a\.wav 0:03/);
});
