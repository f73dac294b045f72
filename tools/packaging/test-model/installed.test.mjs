import { spawn, spawnSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { hostPlatform } from '../../../packages/mlx-core/scripts/wheels.mjs';
import { packAll } from '../src/pack.mjs';
import { workspaceRoot } from '../src/published-packages.mjs';
import { scopeRegistry } from './scope-registry.mjs';

const WHISPER = '@mlx-runners/whisper';
const NATIVE = `@mlx-runners/mlx-core-${hostPlatform}`;
const TEXT = /^And so my fellow Americans,? ask not what .* for your country\.\n$/;
/** The newest that runs on Node 20. */
const PNPM = 'pnpm@10.34.8';
/** Weights fetched once serve every run; everything else of the user's is out of reach. */
const WEIGHTS = process.env.MLX_RUNNERS_CACHE ?? join(homedir(), '.cache/mlx-runners');

let root;
let registry;
let packages;
let skipReason;
beforeAll(async () => {
  root = realpathSync(mkdtempSync(join(tmpdir(), 'mlx-runners-installed-')));
  mkdirSync(join(root, 'home'));
  cpSync(join(workspaceRoot, 'packages/test-fixtures/speech/jfk.wav'), join(root, 'jfk.wav'));
  const packed = join(root, 'packed');
  packages = await packAll(packed, { platforms: [hostPlatform] });
  const manifestOf = (name) =>
    JSON.parse(readFileSync(join(packed, 'staged', name, 'package.json'), 'utf8'));
  registry = await scopeRegistry(packed, packages, manifestOf);
  // In the user's file, which npm and pnpm both read.
  writeFileSync(
    join(root, 'home/.npmrc'),
    `${userSettings()}\n@mlx-runners:registry=${registry.url}\n`,
  );
  skipReason = await unreachable();
}, 120_000);
beforeEach(({ skip }) => skip(skipReason !== undefined, skipReason));
afterAll(() => {
  registry?.close();
  rmSync(root, { recursive: true, force: true });
}, 60_000);

const TIMEOUT = 300_000;

/** Why packages or weights can't be had here; undefined when they can. */
async function unreachable() {
  const look = ['view', 'commander@14.0.3', 'version', '--fetch-retries', '0'];
  const ping = await run('npm', look, { cwd: root });
  if (ping.code !== 0) return `no package registry: ${ping.err.trim().split('\n')[0]}`;
  if (existsSync(join(WEIGHTS, 'mirrors'))) return undefined;
  return `no weights of whisper-base in ${WEIGHTS}`;
}

/** A program as a user starts it who has nothing of this workspace. */
async function run(program, args, { cwd, env = {} }) {
  const kept = ['PATH', 'LANG', 'HTTP_PROXY', 'HTTPS_PROXY', 'NO_PROXY', 'NODE_EXTRA_CA_CERTS'];
  const child = spawn(program, args, {
    cwd,
    env: {
      ...Object.fromEntries(
        kept.flatMap((name) => (name in process.env ? [[name, process.env[name]]] : [])),
      ),
      ...configuration,
      HOME: join(root, 'home'),
      MLX_RUNNERS_CACHE: WEIGHTS,
      npm_config_cache: join(root, 'npm-cache'),
      npm_config_update_notifier: 'false',
      ...env,
    },
  });
  let out = '';
  let err = '';
  child.stdout.setEncoding('utf8').on('data', (text) => (out += text));
  child.stderr.setEncoding('utf8').on('data', (text) => (err += text));
  const code = await new Promise((resolve, reject) =>
    child.on('error', reject).on('close', resolve),
  );
  return { code, out, err };
}

/** The access to registries that the user has. */
function userSettings() {
  const file = npmSetting('userconfig');
  return existsSync(file) ? readFileSync(file, 'utf8') : '';
}

function npmSetting(key) {
  const { stdout } = spawnSync('npm', ['config', 'get', key], { cwd: tmpdir(), encoding: 'utf8' });
  return stdout.trim();
}

/** Where this machine gets the packages of others. */
const configuration = Object.fromEntries(
  ['registry', 'cafile', 'proxy', 'https-proxy']
    .map((key) => [`npm_config_${key.replace('-', '_')}`, npmSetting(key)])
    .filter(([, value]) => value !== 'null'),
);

function emptyFolder(name) {
  const folder = join(root, name);
  mkdirSync(folder, { recursive: true });
  return folder;
}

const quiet = ['--ignore-scripts', '--no-audit', '--no-fund', '--loglevel', 'error'];

describe('installed with npm from tarballs, without install scripts', () => {
  let app;
  let installed;
  beforeAll(async () => {
    if (skipReason !== undefined) return;
    app = emptyFolder('app');
    const tarballs = packages.map(({ filename }) => join(root, 'packed', filename));
    installed = await run('npm', ['install', ...quiet, ...tarballs], { cwd: app });
  }, TIMEOUT);

  test('npx whisper transcribes', { timeout: TIMEOUT }, async () => {
    expect(installed).toMatchObject({ code: 0, err: '' });
    const { code, out, err } = await run('npx', ['whisper', '../jfk.wav'], { cwd: app });
    expect(out).toMatch(TEXT);
    expect(err).toMatch(/^jfk\.wav: 11\.0 s of audio \(en\)/);
    expect(code).toBe(0);
  });

  test('so does the command through a link from elsewhere', { timeout: TIMEOUT }, async () => {
    const bin = join(emptyFolder('my bin ü'), 'whisper');
    symlinkSync(join(app, 'node_modules/.bin/whisper'), bin);
    const { out } = await run(bin, ['--quiet', join(root, 'jfk.wav')], { cwd: '/' });
    expect(out).toMatch(TEXT);
  });

  test('nothing points back into the workspace', () => {
    const own = join(app, 'node_modules/@mlx-runners');
    const pointing = readdirSync(own, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name))
      .filter((file) => readFileSync(file).includes(workspaceRoot));
    expect(pointing).toEqual([]);
  });

  test(
    'without optional dependencies one error says what helps',
    { timeout: TIMEOUT },
    async () => {
      const folder = emptyFolder('without-native');
      await run('npm', ['install', ...quiet, '--omit=optional', WHISPER], { cwd: folder });
      expect(readdirSync(join(folder, 'node_modules/@mlx-runners'))).not.toContain(
        `mlx-core-${hostPlatform}`,
      );
      const version = await run('npx', ['whisper', '--version'], { cwd: folder });
      expect(version).toMatchObject({ code: 0, out: `${packages[0].version}\n` });
      const { code, out, err } = await run('npx', ['whisper', '../jfk.wav'], { cwd: folder });
      expect([code, out]).toEqual([1, '']);
      expect(err).toContain(`- the package ${NATIVE}: Cannot find module`);
      expect(err).toContain('npm install --include=optional');
      expect(err).not.toMatch(/^\s+at /m);
    },
  );
});

describe('from a registry', () => {
  test.each([
    ['npx', ['--yes', WHISPER]],
    ['pnpm dlx', ['--yes', PNPM, 'dlx', WHISPER]],
  ])('%s transcribes', { timeout: TIMEOUT }, async (_, args) => {
    const folder = emptyFolder('empty');
    const { code, out, err } = await run('npx', [...args, '../jfk.wav'], { cwd: folder });
    expect(out).toMatch(TEXT);
    expect(code).toBe(0);
    expect(err).not.toMatch(/ignored build scripts/i);
  });

  test('pnpm asks for no build script to be approved', { timeout: TIMEOUT }, async () => {
    const folder = emptyFolder('pnpm');
    const { code, out } = await run('npx', ['--yes', PNPM, 'add', WHISPER], { cwd: folder });
    expect(code).toBe(0);
    expect(out).not.toMatch(/ignored build scripts/i);
    const { out: text } = await run('npx', [PNPM, 'exec', 'whisper', '../jfk.wav'], {
      cwd: folder,
    });
    expect(text).toMatch(TEXT);
  });

  test('a global install transcribes', { timeout: TIMEOUT }, async () => {
    const prefix = emptyFolder('global');
    const { code } = await run(
      'npm',
      ['install', '--global', '--prefix', prefix, ...quiet, WHISPER],
      { cwd: root },
    );
    expect(code).toBe(0);
    const { out } = await run(join(prefix, 'bin/whisper'), ['--quiet', 'jfk.wav'], { cwd: root });
    expect(out).toMatch(TEXT);
  });
});
