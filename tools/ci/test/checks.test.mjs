import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';

let repository;
beforeEach(() => {
  repository = mkdtempSync(join(tmpdir(), 'mlx-runners-checks-'));
  execFileSync('git', ['init', '--quiet'], { cwd: repository });
});
afterEach(() => rmSync(repository, { recursive: true }));

function write(file, text) {
  writeFileSync(join(repository, file), text);
}

/** Runs a check in the repository: its exit code and what it complains about. */
function check(script) {
  const { status, stderr } = spawnSync(
    process.execPath,
    [join(import.meta.dirname, '..', script)],
    {
      cwd: repository,
      encoding: 'utf8',
    },
  );
  return [status, stderr.trim()];
}

const lines = (count) => '\n'.repeat(count);

test('file-size: fails above 800 lines, warns above 500', () => {
  write('short.ts', lines(500));
  write('long.cpp', lines(800));
  expect(check('file-size.mjs')).toEqual([
    0,
    'long.cpp: 800 lines, more than 500, consider splitting it',
  ]);
  write('long.cpp', lines(801));
  const [status, message] = check('file-size.mjs');
  expect(message).toMatch(/^long\.cpp: 801 lines, more than 800/);
  expect(status).toBe(1);
});

test('file-size: leaves generated, ignored and other files alone', () => {
  write('ops.generated.ts', lines(2000));
  write('data.json', lines(2000));
  write('.gitignore', 'built.ts\n');
  write('built.ts', lines(2000));
  expect(check('file-size.mjs')).toEqual([0, '']);
});

test.each([
  ['a.md', ['', 'home', 'me', 'model'].join('/')],
  ['a.ts', `const path = '${['', 'Users', 'me', 'x'].join('/')}';`],
  ['a.sh', `cd ${['', 'root', 'x'].join('/')}`],
  ['package-lock.json', '      "resolved": "https://example.org/x.tgz",'],
])('committed-text: finds what must not be in %s', (file, text) => {
  write(file, `first line\n${text}\n`);
  const [status, message] = check('committed-text.mjs');
  expect(message).toContain(`${file}:2: names a`);
  expect(status).toBe(1);
});

test('committed-text: finds the folder of the repository itself', () => {
  write('a.json', JSON.stringify({ file: join(repository, 'b') }));
  expect(check('committed-text.mjs')[0]).toBe(1);
});

test('committed-text: takes other paths and addresses', () => {
  write('a.md', 'https://example.org/home/me/ and ~/root/x and /usr/bin/env');
  write('package-lock.json', '"resolved": "packages/nn"');
  expect(check('committed-text.mjs')).toEqual([0, '']);
});
