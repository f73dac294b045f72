import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { bundleFakeRunner, type BundledProgram, type Outcome } from './bundled-program.js';

const COMMIT = 'abcdef12'.padEnd(40, '0');
const FILES: Record<string, string> = {
  'config.json': '{"model_type":"tiny"}',
  'a.bin': 'weights',
};

let fake: BundledProgram;
let hub: Server;
let files = FILES;
let folder: string;

beforeAll(async () => {
  fake = await bundleFakeRunner();
  hub = createServer((request, response) => {
    const { pathname } = new URL(request.url!, 'http://localhost');
    const name = pathname.split('/').at(-1)!;
    if (pathname.includes('/revision/')) response.end(JSON.stringify({ sha: COMMIT }));
    else if (pathname.includes('/resolve/')) response.end(files[name]);
    else {
      const entries = Object.entries(files).map(([path, content]) => ({
        ...{ type: 'file', path, size: content.length, oid: gitBlobId(content) },
      }));
      response.end(JSON.stringify(entries));
    }
  });
  await new Promise<void>((resolve) => hub.listen(0, '127.0.0.1', resolve));
});
afterAll(() => {
  fake.remove();
  hub.close();
  hub.closeAllConnections();
});
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'models-test-'));
  files = FILES;
});
afterEach(() => rmSync(folder, { recursive: true }));

function gitBlobId(content: string): string {
  return createHash('sha1').update(`blob ${content.length}\0${content}`).digest('hex');
}

function models(...args: string[]): Promise<Outcome> {
  const env = {
    HF_ENDPOINT: `http://127.0.0.1:${(hub.address() as AddressInfo).port}`,
    HF_HUB_CACHE: join(folder, 'hf'),
    MLX_RUNNERS_CACHE: join(folder, 'own'),
  };
  return fake.run(['models', ...args], { env });
}

const repo = () => join(folder, 'hf/models--org--tiny');
const snapshot = () => join(repo(), 'snapshots', COMMIT);

test('a model is fetched, listed, verified and removed', async () => {
  expect(await models('pull', 'tiny')).toEqual({ code: 0, stdout: `${snapshot()}\n`, stderr: '' });
  expect((await models('list')).stdout).toBe(
    'ID        REVISION       FILES  SIZE    FROM   COMPLETE\n' +
      'org/tiny  abcdef12 main  2      0.0 kB  cache  yes\n',
  );
  expect(await models('verify')).toMatchObject({
    code: 0,
    stdout: 'ok      org/tiny abcdef12 main\n',
  });
  const { code, stdout } = await models('rm', 'org/tiny');
  expect(code).toBe(0);
  expect(stdout).toMatch(/^removed org\/tiny: 0\.\d kB freed\n$/);
  expect((await models('list')).stdout).toBe('ID  REVISION  FILES  SIZE  FROM  COMPLETE\n');
});

test('all say the same as JSON', async () => {
  const json = async (...args: string[]) =>
    JSON.parse((await models(...args, '--json')).stdout) as unknown;
  const path = snapshot();
  expect(await json('pull', 'tiny')).toEqual({
    path,
    source: 'hub',
    id: 'org/tiny',
    commit: COMMIT,
  });
  const row = {
    id: 'org/tiny',
    source: 'cache',
    revision: COMMIT,
    refs: ['main'],
    path,
    files: 2,
    bytes: 28,
    missing: [],
  };
  expect(await json('list')).toEqual([row]);
  expect(await json('verify', 'tiny')).toEqual([{ ...row, damaged: [], unknown: [] }]);
  expect(await json('rm', 'tiny', '--revision', 'main')).toEqual({ id: 'org/tiny', bytes: 28 });
});

describe('failures', () => {
  test('verify names what is damaged, missing and unknown, and exits with 1', async () => {
    mkdirSync(snapshot(), { recursive: true });
    mkdirSync(join(repo(), 'blobs'));
    writeFileSync(join(repo(), 'blobs', gitBlobId('right')), 'wrong');
    symlinkSync(`../../blobs/${gitBlobId('right')}`, join(snapshot(), 'config.json'));
    writeFileSync(join(snapshot(), 'notes\u001b[2J'), '');
    expect(await models('verify', 'tiny')).toEqual({
      code: 1,
      stdout: [
        'FAILED  org/tiny abcdef12',
        '  damaged: config.json',
        '  missing: a.bin',
        '  without a checksum: notes\\u001b[2J',
        '  remove the model ("models rm"), then fetch it again\n',
      ].join('\n'),
      stderr: '',
    });
    expect((await models('list')).stdout).toMatch(/no: a\.bin missing$/m);
  });

  test('pull refuses a model that the runner has no use for, and leaves nothing', async () => {
    files = { 'config.json': '{"model_type":"llama"}', 'a.bin': 'x'.repeat(1000) };
    const { code, stderr } = await models('pull', 'org/tiny');
    expect({ code, stderr }).toEqual({ code: 1, stderr: 'error: Unknown model_type llama.\n' });
    expect(readdirSync(join(folder, 'hf'))).toEqual(['.locks']);
  });

  test.each([
    [['pull', 'nope'], 1, /no short name of a model\. Short names are tiny\./],
    [['rm', 'org/tin'], 1, /^error: org\/tin is not in .*there is nothing\.\n$/],
    [['verify', 'tiny'], 1, /^error: org\/tiny is not in /],
    [['rm'], 2, /missing required argument 'id'/],
    [['pull', 'tiny', '--revision', ''], 2, /--revision /],
    [['sing'], 2, /unknown command 'sing'/],
    [['list', 'tiny'], 2, /too many arguments/],
  ])('%j', async (args, code, message) => {
    const outcome = await models(...args);
    expect(outcome).toMatchObject({ code, stdout: '' });
    expect(outcome.stderr).toMatch(message);
  });
});
