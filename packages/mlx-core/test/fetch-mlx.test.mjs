import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';

const CONTENT = 'a wheel';

/** A python3 whose pip "downloads" CONTENT and whose zipfile "unpacks" a folder `mlx`. */
const PYTHON = `#!/bin/sh
echo "$2" >> "$CALLS"
case "$2" in
pip) while [ "$1" != --dest ]; do shift; done; printf %s '${CONTENT}' > "$2/mlx.whl" ;;
zipfile) mkdir "$5/mlx" ;;
esac
`;

let root;
let cache;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'mlx-core-fetch-'));
  cache = join(root, 'cache');
  cpSync(join(import.meta.dirname, '../scripts'), join(root, 'packages/mlx-core/scripts'), {
    recursive: true,
  });
  pin(createHash('sha256').update(CONTENT).digest('hex'));
  usePython(PYTHON);
});
afterEach(() => rmSync(root, { recursive: true }));

function pin(sha256) {
  const wheel = { package: 'mlx-x', version: '1.2.3', pipPlatform: 'any', file: 'mlx.whl', sha256 };
  const lock = { platforms: { [`${process.platform}-${process.arch}`]: { mlx: wheel } } };
  writeFileSync(join(root, 'packages/mlx-core/native.lock.json'), JSON.stringify(lock));
}

function usePython(script) {
  mkdirSync(join(root, 'bin'), { recursive: true });
  writeFileSync(join(root, 'bin/python3'), script);
  chmodSync(join(root, 'bin/python3'), 0o755);
}

function fetch(env = {}, ...args) {
  const script = join(root, 'packages/mlx-core/scripts/fetch-mlx.mjs');
  const { status, stdout, stderr } = spawnSync(process.execPath, [script, ...args], {
    encoding: 'utf8',
    env: {
      PATH: `${join(root, 'bin')}:${process.env.PATH}`,
      CALLS: join(root, 'calls'),
      MLX_RUNNERS_BUILD_CACHE: cache,
      ...env,
    },
  });
  return { status, stdout: stdout.trim(), stderr: stderr.trim() };
}

const target = () => join(cache, 'mlx', `1.2.3-${process.platform}-${process.arch}`);

/** What lies in the cache: nothing half-finished may. */
const cached = () => (existsSync(join(cache, 'mlx')) ? readdirSync(join(cache, 'mlx')) : []);

test('downloads and unpacks once, and then uses what it has', () => {
  expect(fetch()).toMatchObject({ status: 0, stdout: join(target(), 'mlx') });
  expect(cached()).toHaveLength(1);
  expect(readdirSync(target()).sort()).toEqual(['mlx', 'wheel.sha256']);
  usePython('#!/bin/sh\nexit 1\n');
  expect(fetch()).toEqual({ status: 0, stdout: join(target(), 'mlx'), stderr: '' });
});

test('downloads again when another wheel is pinned', () => {
  fetch();
  pin('0'.repeat(64));
  expect(fetch().status).toBe(1);
});

test('refuses a wheel with another hash, and keeps nothing of it', () => {
  pin('0'.repeat(64));
  const { status, stderr } = fetch();
  expect(stderr).toMatch(/mlx\.whl has sha256 \w+; native\.lock\.json pins 0{64}\./);
  expect(status).toBe(1);
  expect(cached()).toEqual([]);
});

test('passes on what pip says when it fails', () => {
  usePython('#!/bin/sh\necho no such package >&2\nexit 1\n');
  const { status, stderr } = fetch();
  expect(stderr).toContain('mlx-x 1.2.3 could not be downloaded with pip:\nno such package');
  expect(status).toBe(1);
  expect(cached()).toEqual([]);
});

test('takes the MLX in MLX_DIR instead, and downloads none', () => {
  const own = join(root, 'own');
  mkdirSync(join(own, 'share/cmake/MLX'), { recursive: true });
  writeFileSync(join(own, 'share/cmake/MLX/MLXConfig.cmake'), '');
  expect(fetch({ MLX_DIR: own })).toEqual({ status: 0, stdout: own, stderr: '' });
  expect(existsSync(join(root, 'calls'))).toBe(false);
});

test('says what is wrong with an MLX_DIR that holds no MLX', () => {
  const { status, stderr } = fetch({ MLX_DIR: root });
  expect(stderr).toContain('has no share/cmake/MLX/MLXConfig.cmake');
  expect(status).toBe(1);
});

test('names the platforms that have a wheel', () => {
  expect(fetch({}, '--platform', 'win32-x64').stderr).toBe(
    `There is no mlx wheel for win32-x64, only for ${process.platform}-${process.arch}. ` +
      'Set MLX_DIR to the folder of your own MLX installation.',
  );
});
