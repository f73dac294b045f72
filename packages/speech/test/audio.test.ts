import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { pathToFileURL } from 'node:url';
import { AbortedError, AudioError, UsageError } from '@mlx-runners/mlx-core/errors';
import { speechPath } from '@mlx-runners/test-fixtures';
import { describe, expect, test } from 'vitest';
import { encodeWav, loadAudio, mixToMono, type AudioInput } from '../src/index.js';
import { bytesOf, fmt, riff } from './wav-bytes.js';

const ramp = Float32Array.from({ length: 1600 }, (_, i) => (i - 800) / 1024);
const wav = encodeWav({ samples: [ramp], sampleRate: 16000 });
const folder = mkdtempSync(join(tmpdir(), 'speech-'));

function file(name: string, bytes: Uint8Array): string {
  const path = join(folder, name);
  writeFileSync(path, bytes);
  return path;
}

async function* streamOf<Chunk>(...chunks: Chunk[]): AsyncIterable<Chunk> {
  for (const chunk of chunks) {
    await Promise.resolve();
    yield chunk;
  }
}

describe('inputs', () => {
  const path = file('ramp.wav', wav);
  const bytes = new Uint8Array(wav);
  const inputs: [string, () => AudioInput][] = [
    ['a path', () => path],
    ['a URL', () => pathToFileURL(path)],
    ['a URL as a text', () => pathToFileURL(path).href],
    ['bytes', () => bytes],
    ['a Buffer', () => Buffer.from(bytes)],
    ['an ArrayBuffer', () => bytes.buffer],
    ['samples', () => ({ samples: ramp, sampleRate: 16000 })],
    ['a stream of bytes', () => streamOf(bytes.subarray(0, 7), bytes.subarray(7))],
    ['a Node stream', () => Readable.from([Buffer.from(bytes)])],
    ['a web stream', () => new Blob([bytes]).stream()],
    [
      'a stream of samples',
      () =>
        streamOf(
          { samples: ramp.subarray(0, 100), sampleRate: 16000 },
          { samples: ramp.subarray(100), sampleRate: 16000 },
        ),
    ],
  ];

  test.each(inputs)('%s', async (_, input) => {
    const audio = await loadAudio(input());
    expect(audio).toEqual({ samples: ramp, sampleRate: 16000, duration: 0.1 });
  });

  test('the name of a file does not matter', async () => {
    expect((await loadAudio(file('ramp.mp3', wav))).samples).toEqual(ramp);
  });

  test('real speech', async () => {
    const audio = await loadAudio(speechPath());
    expect(audio.duration).toBe(11);
    expect(audio.samples.length).toBe(176000);
  });
});

describe('what becomes of it', () => {
  test('stereo float at 48 kHz becomes mono at 16 kHz', async () => {
    const left = Float32Array.from({ length: 48000 }, (_, n) =>
      Math.sin((2 * Math.PI * 500 * n) / 48000),
    );
    const samples = [left, left.map((value) => value / 2)];
    const audio = await loadAudio(encodeWav({ samples, sampleRate: 48000 }, { depth: '32f' }));
    expect(audio.duration).toBe(1);
    expect(audio.samples.length).toBe(16000);
    expect(audio.samples[8008]).toBeCloseTo(0.75, 4);
  });

  test('another target rate', async () => {
    const audio = await loadAudio({ samples: ramp, sampleRate: 16000 }, { sampleRate: 24000 });
    expect(audio).toMatchObject({ sampleRate: 24000, duration: 0.1 });
    expect(audio.samples.length).toBe(2400);
  });

  test('audio without samples is valid', async () => {
    for (const input of [
      { samples: new Float32Array(), sampleRate: 44100 },
      encodeWav({ samples: [new Float32Array()], sampleRate: 44100 }),
    ]) {
      expect(await loadAudio(input)).toEqual({
        samples: new Float32Array(),
        sampleRate: 16000,
        duration: 0,
      });
    }
  });

  test('samples somewhat beyond full scale are kept', async () => {
    const samples = Float32Array.of(1.5, -100, 100);
    expect((await loadAudio({ samples, sampleRate: 16000 })).samples).toEqual(samples);
  });

  test('channels are mixed by their mean', () => {
    const channels = [Float32Array.of(1, 0), Float32Array.of(0.5, 0), Float32Array.of(0, 0.75)];
    expect(mixToMono(channels)).toEqual(Float32Array.of(0.5, 0.25));
  });
});

describe('what is refused', () => {
  const bytes = (...values: number[]) => Uint8Array.from(values);
  const text = (value: string) => Buffer.from(value, 'latin1');

  test.each<[string, Uint8Array]>([
    ['MP3', text('ID3\x04\0\0\0\0\0\0')],
    ['MP3', bytes(0xff, 0xfb, 0x90, 0x64, 0, 0, 0, 0)],
    ['AAC', bytes(0xff, 0xf1, 0x50, 0x80, 0, 0, 0, 0)],
    ['FLAC', text('fLaC\0\0\0\x22')],
    ['Ogg', text('OggS\0\x02\0\0')],
    ['MP4/M4A', text('\0\0\0\x20ftypM4A \0\0\0\0')],
    ['WebM', bytes(0x1a, 0x45, 0xdf, 0xa3, 1, 0, 0, 0)],
    ['AIFF', text('FORM\0\0\0\x2eAIFFCOMM')],
    ['CAF', text('caff\0\x01\0\0')],
    ['AU', text('.snd\0\0\0\x18')],
    ['AMR', text('#!AMR\n')],
    ['Windows Media', bytes(0x30, 0x26, 0xb2, 0x75, 0x8e, 0x66, 0xcf, 0x11)],
    ['AVI', text('RIFF\0\0\0\0AVI LIST')],
    ['Wave64', text('riff\x2e\x91\xcf\x11')],
  ])('%s is named, with what to do', async (name, content) => {
    const error = await loadAudio(content).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(AudioError);
    expect((error as Error).message).toContain(name);
    expect((error as Error).message).toContain('ffmpeg -i');
  });

  test.each<[string, unknown, RegExp]>([
    ['samples without a rate', ramp, /do not say their rate: pass \{ samples, sampleRate \}/],
    ['a list of numbers', [0, 0.5], /do not say their rate/],
    ['16-bit samples', new Int16Array(4), /do not say their rate/],
    ['samples with no rate', { samples: ramp }, /need their rate/],
    ['samples in a list', { samples: [0, 1], sampleRate: 16000 }, /Float32Array/],
    [
      'doubles',
      { samples: Float64Array.of(0, 1), sampleRate: 16000 },
      /not Float64Array: Float32A/,
    ],
    ['nothing', undefined, /must be a path.* not undefined/],
    ['null', null, /must be a path.* not null/],
    ['a number', 42, /must be a path.* not number/],
    ['an object', { path: 'a.wav' }, /must be a path.* not Object/],
    ['a rate that is text', { samples: ramp, sampleRate: '16000' }, /need their rate/],
    ['an impossible rate', { samples: ramp, sampleRate: 12 }, /rate of 12 Hz.*1000 to 768000/],
    ['NaN', { samples: Float32Array.of(0, NaN), sampleRate: 16000 }, /Sample 1 .* NaN/],
    [
      '3e38',
      { samples: Float32Array.of(0, 3e38), sampleRate: 16000 },
      /Sample 1 .* 3.*e\+38.*-1\.\.1/,
    ],
    [
      'integers',
      { samples: Float32Array.of(0, -9000), sampleRate: 8000 },
      /-9000.*divided by 32768/,
    ],
    [
      'huge samples that cancel out in the mean',
      riff([
        fmt({ tag: 3, bits: 32, channels: 2 }),
        { id: 'data', body: bytesOf(Float32Array.of(2e38, -2e38)) },
      ]),
      /Sample 0 .*e\+38/,
    ],
    [
      'infinity',
      riff([fmt({ tag: 3, bits: 32 }), { id: 'data', body: bytesOf(Float32Array.of(-Infinity)) }]),
      /-Infinity/,
    ],
    ['no bytes', bytes(), /empty/],
    ['an empty stream', streamOf(), /empty/],
    [
      'random bytes',
      bytes(7, 1, 200, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12),
      /no known audio format.*0701c803/,
    ],
    ['a stream of text', streamOf('RIFF'), /only bytes/],
    [
      'a stream of both',
      streamOf<unknown>(wav, { samples: ramp, sampleRate: 16000 }),
      /only bytes/,
    ],
    ['a stream of bare samples', streamOf(ramp), /do not say their rate/],
    [
      'a changing rate',
      streamOf({ samples: ramp, sampleRate: 16000 }, { samples: ramp, sampleRate: 8000 }),
      /from 16000 to 8000 Hz/,
    ],
    ['a missing file', join(folder, 'missing.wav'), /missing.wav': there is no such file/],
    ['a folder', folder, /it is a folder/],
    ['a damaged file', file('cut.wav', wav.subarray(0, 20)), /cut.wav': The WAV file.*'fmt '/],
    ['a web address', new URL('https://example.org/a.wav'), /a\.wav': .*https: address.*bytes/],
    ['a web address as a text', 'https://example.org/a.wav', /a\.wav': .*https: address/],
    ['a file: URL of elsewhere', new URL('file://elsewhere/a.wav'), /no file: URL of this machine/],
    [
      'samples that come by and by',
      { samples: streamOf(ramp), sampleRate: 16000 },
      /not a stream \(which gives \{ samples, sampleRate \} itself\)/,
    ],
    [
      'samples of a class without a name',
      { samples: Object.create({ constructor: { name: '' } }) as unknown, sampleRate: 16000 },
      /not an object/,
    ],
  ])('%s', async (_, input, message) => {
    const loading = loadAudio(input as AudioInput);
    await expect(loading).rejects.toThrow(AudioError);
    await expect(loading).rejects.toThrow(message);
  });

  test('a senseless target rate is misuse', async () => {
    await expect(loadAudio(wav, { sampleRate: 0 })).rejects.toThrow(UsageError);
  });
});

describe('signal', () => {
  test('aborted before it begins', async () => {
    const options = { signal: AbortSignal.abort() };
    await expect(loadAudio(wav, options)).rejects.toThrow(AbortedError);
  });

  test('ends the wait for a stream that stalls', async () => {
    const controller = new AbortController();
    async function* stalled() {
      yield readFileSync(speechPath());
      controller.abort();
      await new Promise(() => undefined);
    }
    const loading = loadAudio(stalled(), { signal: controller.signal });
    await expect(loading).rejects.toThrow(AbortedError);
  });

  test('stops a long conversion', async () => {
    const controller = new AbortController();
    const samples = new Float32Array(48000 * 60);
    const loading = loadAudio({ samples, sampleRate: 48000 }, { signal: controller.signal });
    setImmediate(() => controller.abort());
    await expect(loading).rejects.toThrow(AbortedError);
  });
});

describe('a stream that is refused', () => {
  test('leaves a server its request, so that the client gets an answer', async () => {
    const server = createServer((request, response) => {
      loadAudio(request).catch((error: unknown) =>
        response.writeHead(400).end((error as AudioError).message),
      );
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const body = Buffer.alloc(2 ** 20, 'hello ');
    const answer = await fetch(`http://127.0.0.1:${port}`, { method: 'POST', body });
    expect([answer.status, await answer.text()]).toEqual([
      400,
      expect.stringMatching(/^This is no known audio format/),
    ]);
    server.close();
    server.closeAllConnections();
  });

  test('is not cancelled where it is one of the web', async () => {
    let cancelled = false;
    const stream = new ReadableStream<Uint8Array>({
      pull: (controller) => controller.enqueue(Buffer.alloc(1000, 'hello ')),
      cancel: () => void (cancelled = true),
    });
    await expect(loadAudio(stream)).rejects.toThrow(AudioError);
    expect([cancelled, stream.locked]).toEqual([false, false]);
  });
});

test.each([
  ['ends at once', () => ({ done: true, value: undefined })],
  [
    'fails',
    () => {
      throw new Error('return() failed');
    },
  ],
])('a stream whose return() %s does not hide why it was refused', async (_, end) => {
  const iterator = {
    next: () => Promise.resolve({ done: false, value: Buffer.alloc(1000, 'hello ') }),
    return: end,
  };
  const stream = { [Symbol.asyncIterator]: () => iterator } as unknown as AudioInput;
  await expect(loadAudio(stream)).rejects.toThrow(/no known audio format/);
});

test('samples that were transferred are refused', async () => {
  const samples = Float32Array.of(0, 0.5);
  structuredClone(samples.buffer, { transfer: [samples.buffer] });
  const loading = loadAudio({ samples, sampleRate: 16_000 });
  await expect(loading).rejects.toThrow(AudioError);
  await expect(loading).rejects.toThrow(/transferred elsewhere/);
});
