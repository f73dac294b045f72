import { spawnSync } from 'node:child_process';
import { createWriteStream, mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { AbortedError, AudioError } from '@mlx-runners/mlx-core/errors';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { encodeWav, loadAudio } from '../src/index.js';

const ramp = Float32Array.from({ length: 80_000 }, (_, i) => (i % 1600) / 2048);
const wav = encodeWav({ samples: [ramp], sampleRate: 16_000 });
let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'audio-file-'));
});
afterAll(() => rmSync(folder, { recursive: true }));

function fifo(name: string): string {
  const path = join(folder, name);
  expect(spawnSync('mkfifo', [path]).status).toBe(0);
  return path;
}

describe('a pipe', () => {
  test('is read to its end, whoever comes first and however slowly it is written', async () => {
    const path = fifo('slow');
    const loading = loadAudio(path);
    const writer = createWriteStream(path);
    for (let at = 0; at < wav.length; at += 50_000) {
      writer.write(wav.subarray(at, at + 50_000));
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    writer.end();
    expect((await loading).samples).toEqual(ramp);
  });

  test('that nobody writes to ends with the signal', async () => {
    const controller = new AbortController();
    const loading = loadAudio(fifo('silent'), { signal: controller.signal });
    setTimeout(() => controller.abort(), 20);
    await expect(loading).rejects.toThrow(AbortedError);
  });

  test('without a byte is empty', async () => {
    const path = fifo('empty');
    const loading = loadAudio(path);
    createWriteStream(path).end();
    await expect(loading).rejects.toThrow(`'${path}': The audio is empty (0 bytes).`);
  });

  test('of something else is refused by its first bytes, with its name', async () => {
    const path = fifo('endless');
    const loading = loadAudio(path);
    const writer = createWriteStream(path);
    writer.on('error', () => undefined); // EPIPE: nobody reads on
    writer.write(Buffer.alloc(1000, 'OggS'));
    await expect(loading).rejects.toThrow(/endless': Ogg .* can't be decoded/);
    // `once()` of events would fail with what could not be written.
    const closed = new Promise<void>((resolve) => writer.once('close', resolve));
    writer.destroy();
    await closed;
  });
});

describe('what never ends', () => {
  test('a device of zeros is no audio', async () => {
    await expect(loadAudio('/dev/zero')).rejects.toThrow("'/dev/zero': This is no known audio");
  });

  test.each([
    ['bytes', wav, Buffer.alloc(2 ** 26)],
    [
      'samples',
      { samples: ramp, sampleRate: 16_000 },
      { samples: new Float32Array(2 ** 24), sampleRate: 16_000 },
    ],
  ])('a stream of %s is refused past the limit, and ended', async (_, first, more) => {
    let ended = false;
    async function* endless() {
      try {
        yield first as Uint8Array;
        for (;;) yield await Promise.resolve(more as Uint8Array);
      } finally {
        ended = true;
      }
    }
    const loading = loadAudio(endless());
    await expect(loading).rejects.toThrow(AudioError);
    await expect(loading).rejects.toThrow(/larger than \d\.\d GiB.*cut it into parts/);
    expect(ended).toBe(true);
  });

  test('a file past the limit is refused before it is read', async () => {
    const path = join(folder, 'sparse.wav');
    writeFileSync(path, wav);
    truncateSync(path, 2 ** 32 + 1);
    await expect(loadAudio(path)).rejects.toThrow(/larger than .* GiB/);
  });
});
