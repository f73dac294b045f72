import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { hostPlatform } from '../../../packages/mlx-core/scripts/wheels.mjs';
import { bundleRunner } from '../src/bundle.mjs';
import { workspaceRoot } from '../src/published-packages.mjs';

const whisper = join(workspaceRoot, 'runners/whisper');
const fixtures = join(workspaceRoot, 'packages/test-fixtures/goldens');

const root = realpathSync(mkdtempSync(join(tmpdir(), 'mlx-runners-bundle-')));
const bundle = join(root, 'somewhere else, für später');
let madeMode;
beforeAll(async () => {
  const made = join(root, 'made');
  await bundleRunner(whisper, made, hostPlatform);
  madeMode = statSync(made).mode & 0o777;
  // A copy, not a rename: its files must not be shared with the build.
  cpSync(made, bundle, { recursive: true });
  rmSync(made, { recursive: true });
}, 60_000);
afterAll(() => rmSync(root, { recursive: true }));

/** Runs a program with nothing of this workspace in its environment. */
function run(program, args, cwd = '/') {
  const env = { PATH: process.env.PATH, HOME: root };
  const { status, stdout, stderr } = spawnSync(program, args, { cwd, env, encoding: 'utf8' });
  return { code: status, out: stdout, err: stderr };
}

const cli = join(bundle, 'dist/cli.js');

test('holds what it needs and no more', () => {
  const files = readdirSync(bundle, { recursive: true }).sort();
  expect(files.filter((file) => !file.startsWith('dist/native'))).toEqual([
    'LICENSE',
    'README.md',
    'THIRD-PARTY-NOTICES.txt',
    'dist',
    'dist/cli.js',
    'package.json',
  ]);
  expect(files).toContain('dist/native/mlx_core.node');
  const holding = files
    .filter((file) => /\.(js|json|txt|node)$/.test(file))
    .filter((file) => readFileSync(join(bundle, file)).includes(workspaceRoot));
  expect(holding).toEqual([]);
});

test('can be read by others, as far as the umask has it', () => {
  expect(madeMode).toBe(0o777 & ~process.umask());
});

test('says how it is started', () => {
  expect(readFileSync(join(bundle, 'README.md'), 'utf8')).toContain('./dist/cli.js --help');
});

test('names the licences of the packages in it', () => {
  const notices = readFileSync(join(bundle, 'THIRD-PARTY-NOTICES.txt'), 'utf8');
  for (const name of ['commander', 'zod', 'wavefile', 'libmlx']) expect(notices).toContain(name);
});

test('says what it is', () => {
  const { version } = JSON.parse(readFileSync(join(whisper, 'package.json'), 'utf8'));
  expect(run(process.execPath, [cli, '--version'])).toEqual({
    code: 0,
    out: `${version}\n`,
    err: '',
  });
  expect(run(process.execPath, [cli, '--help']).out).toMatch(/^Usage: whisper /);
});

test('computes with its own library, from a folder that can only be read, through a link', () => {
  const folders = [
    bundle,
    ...readdirSync(bundle, { recursive: true }).map((file) => join(bundle, file)),
  ];
  mkdirSync(join(root, 'bin'));
  symlinkSync(cli, join(root, 'bin/whisper'));
  for (const path of folders) chmodSync(path, 0o555);
  try {
    const golden = join(fixtures, 'tiny_whisper_80.safetensors');
    const { code, out, err } = run(join(root, 'bin/whisper'), ['golden', golden], root);
    expect({ code, err }).toEqual({ code: 0, err: expect.not.stringContaining('error') });
    expect(out).toMatch(/logits/);
  } finally {
    for (const path of folders) chmodSync(path, 0o755);
  }
});

test('names the places it looked in when the library is gone', () => {
  const broken = join(root, 'broken');
  cpSync(bundle, broken, { recursive: true });
  rmSync(join(broken, 'dist/native'), { recursive: true });
  writeFileSync(join(root, 'x.wav'), 'no audio');
  const golden = join(fixtures, 'tiny_whisper_80.safetensors');
  const { code, err } = run(process.execPath, [join(broken, 'dist/cli.js'), 'golden', golden]);
  expect(code).toBe(1);
  expect(err).toContain(
    `- beside the running file: there is no ${join(broken, 'dist/native/mlx_core.node')}`,
  );
  expect(err).not.toMatch(/^\s+at /m);
});
