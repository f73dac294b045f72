import { findModel, listModels } from '@mlx-runners/hub';
import { mkdir, readdir, utimes, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { bundleFetchProgram, type FetchProgram } from './bundled-program.js';
import {
  COMMIT,
  failure,
  fetchWeights,
  HubSetting,
  tinyRepo,
  weights,
  weightsBlob,
} from './hub-setting.js';

const setting = new HubSetting(tinyRepo);

/** Sends half of the weights and then nothing. */
function sendHalf(): void {
  setting.hub.faults.set('model.safetensors', (_, response) => {
    response.writeHead(200, { 'content-length': weights.length });
    response.write(weights.subarray(0, 100_000));
  });
}

describe('a part of a file that another run left', () => {
  async function leave(name: string, content: Uint8Array, age = 0): Promise<void> {
    await mkdir(join(setting.repoFolder, 'blobs'), { recursive: true });
    const path = setting.blob(`${weightsBlob}${name}`);
    await writeFile(path, content);
    const time = Date.now() / 1000 - age;
    await utimes(path, time, time);
  }
  const OURS = '.mlx-0123abcd.incomplete';
  const HOUR = 3600;

  it('is gone on with', async () => {
    await leave(OURS, weights.subarray(0, 150_000));
    await setting.expectWhole(await fetchWeights());
    expect(setting.hub.ranges('model.safetensors')).toEqual(['bytes=150000-']);
    expect(await setting.blobs()).toEqual([weightsBlob]);
  });

  it('is used without a request when it has all (HUB-09)', async () => {
    await leave(OURS, weights);
    await setting.expectWhole(await fetchWeights());
    expect(setting.hub.ranges('model.safetensors')).toEqual([]);
  });

  it.each([
    ['larger than the file (HUB-09)', Buffer.alloc(250_000)],
    ['of the size of the file and wrong (HUB-09)', Buffer.alloc(200_000)],
  ])('%s is thrown away', async (_, content) => {
    await leave(OURS, content);
    await setting.expectWhole(await fetchWeights());
    expect(setting.hub.ranges('model.safetensors')).toEqual([undefined]);
    expect(await setting.blobs()).toEqual([weightsBlob]);
  });

  it('that is wrong costs one more try', async () => {
    await leave(OURS, Buffer.alloc(100_000));
    await setting.expectWhole(await fetchWeights());
    expect(setting.hub.ranges('model.safetensors')).toEqual(['bytes=100000-', undefined]);
  });

  it('is the largest of several, and the others go', async () => {
    await leave('.mlx-00000000.incomplete', weights.subarray(0, 10));
    await leave('.mlx-11111111.incomplete', weights.subarray(0, 20_000));
    await setting.expectWhole(await fetchWeights());
    expect(setting.hub.ranges('model.safetensors')).toEqual(['bytes=20000-']);
    expect(await setting.blobs()).toEqual([weightsBlob]);
  });

  it.each(['.incomplete', '.0123abcd.incomplete'])(
    "is Python's: blob%s, once nobody writes to it",
    async (name) => {
      await leave(name, weights.subarray(0, 50_000), HOUR);
      await setting.expectWhole(await fetchWeights());
      expect(setting.hub.ranges('model.safetensors')).toEqual(['bytes=50000-']);
      expect(await setting.blobs()).toEqual([weightsBlob]);
    },
  );

  it('is left to Python while it may be writing', async () => {
    await leave('.0123abcd.incomplete', weights.subarray(0, 50_000));
    await setting.expectWhole(await fetchWeights());
    expect(setting.hub.ranges('model.safetensors')).toEqual([undefined]);
    expect((await setting.blobs()).length).toBe(2);
  });
});

describe('processes', () => {
  let program: FetchProgram;
  beforeAll(async () => {
    program = await bundleFetchProgram();
  });
  afterAll(() => program.remove());

  it('one that is killed with -9 is gone on with by the next (HUB-01)', async () => {
    sendHalf();
    const first = program.start('org/model');
    await first.reports(({ bytes }) => bytes >= 100_000);
    expect(await first.kill('SIGKILL')).toBe('SIGKILL');
    await setting.expectNoModel();
    expect(await readdir(join(setting.cache, '.locks/models--org--model'))).toEqual([
      'mlx-runners.lock',
    ]);

    setting.goOffline();
    const error = await failure(findModel('org/model'));
    expect(error.message).toMatch(
      /incomplete in .*: model\.safetensors, onnx\/model\.onnx.* missing/,
    );
    expect(await listModels()).toMatchObject([
      {
        id: 'org/model',
        files: 0,
        missing: expect.arrayContaining(['model.safetensors']) as string[],
      },
    ]);

    vi.stubEnv('HF_HUB_OFFLINE', undefined);
    setting.hub.faults.clear();
    const second = program.start('org/model');
    expect(await second.ended).toBe(0);
    await setting.expectWhole(second.path!);
    expect(setting.hub.ranges('model.safetensors')).toEqual([undefined, 'bytes=100000-']);
    // The lock of a process that is dead is no reason to wait.
    expect(second.events.filter(({ file }) => file.includes('waiting'))).toEqual([]);
    // The list and config.json were there as well.
    expect(setting.hub.paths('/tree/').length).toBe(1);
    expect(setting.hub.paths('config.json').length).toBe(1);
    expect(second.events[0].bytes).toBeGreaterThanOrEqual(100_000);
    setting.goOffline();
    expect(await findModel('org/model')).toMatchObject({ source: 'cache', commit: COMMIT });
  });

  it('of two, one fetches and the other waits, says so, and uses what came', async () => {
    let sendRest: () => void = () => undefined;
    setting.hub.faults.set('model.safetensors', (_, response) => {
      response.writeHead(200, { 'content-length': weights.length });
      response.write(weights.subarray(0, 100_000));
      sendRest = () => void response.end(weights.subarray(100_000));
    });
    const first = program.start('org/model');
    await first.reports(({ bytes }) => bytes >= 100_000);
    const second = program.start('org/model');
    await second.reports(({ file }) => file.includes('waiting for another process'));
    sendRest();
    expect(await Promise.all([first.ended, second.ended])).toEqual([0, 0]);
    expect(second.path).toBe(first.path);
    await setting.expectWhole(first.path!);
    expect(setting.hub.ranges('model.safetensors')).toEqual([undefined]);
    // It shows how far the other one is.
    const waiting = second.events.find(({ file }) => file.includes('waiting'))!;
    expect(waiting.bytes).toBeGreaterThanOrEqual(100_000);
  });

  it('one that waits goes on at once when the other is killed', async () => {
    sendHalf();
    const first = program.start('org/model');
    await first.reports(({ bytes }) => bytes >= 100_000);
    const second = program.start('org/model');
    await second.reports(({ file }) => file.includes('waiting'));
    setting.hub.faults.clear();
    await first.kill('SIGKILL');
    expect(await second.ended).toBe(0);
    await setting.expectWhole(second.path!);
    expect(setting.hub.ranges('model.safetensors')).toEqual([undefined, 'bytes=100000-']);
  });
});

it('waits for a lock of another machine only as long as it is touched', async () => {
  const lock = join(setting.cache, '.locks/models--org--model/mlx-runners.lock');
  await mkdir(join(lock, '..'), { recursive: true });
  await writeFile(lock, JSON.stringify({ pid: 1, host: `not-${hostname()}`, id: 'x' }));
  let clock = 0;
  vi.spyOn(performance, 'now').mockImplementation(() => (clock += 10_000));
  const waits: string[] = [];
  await fetchWeights({ onProgress: ({ file }) => waits.push(file) });
  vi.restoreAllMocks();
  expect(waits[0]).toMatch(/waiting for another process/);
});
