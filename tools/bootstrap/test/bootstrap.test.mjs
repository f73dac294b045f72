import { mkdirSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { requireNode } from '../src/node-version.mjs';
import { makeClone } from './clone.mjs';

let clone;
beforeEach(() => {
  clone = makeClone();
  for (const group of ['packages', 'runners', 'tools']) {
    mkdirSync(join(clone.root, group), { recursive: true });
  }
});
afterEach(() => clone.remove());

describe('npm start', () => {
  test('installs, builds and transcribes the sample, with nothing else on stdout', () => {
    const { status, stdout, stderr } = clone.run('start');
    expect(JSON.parse(stdout)).toEqual([join(clone.root, 'packages/test-fixtures/speech/jfk.wav')]);
    expect(stderr).toContain('npm ci');
    expect(stderr).toContain(
      'nx run-many --targets=build,build-native --projects=whisper,mlx-core',
    );
    expect(status).toBe(0);
  });

  test('hands its arguments to the command line instead of the sample', () => {
    expect(JSON.parse(clone.run('start', 'my file.wav', '--json').stdout)).toEqual([
      'my file.wav',
      '--json',
    ]);
  });

  test('ends with the exit code of the command line', () => {
    clone.write('runners/whisper/dist/cli.js', 'process.exitCode = 2');
    expect(clone.run('start').status).toBe(2);
  });

  test('shows nothing but the transcript where all is built', async () => {
    clone.run('start');
    await clone.markNativeBuilt();
    const { stdout, stderr } = clone.run('start');
    expect(stderr).toBe('');
    expect(JSON.parse(stdout)).toHaveLength(1);
  });

  test.each([false, true])(
    'stops where the build fails (native one is there: %s)',
    async (built) => {
      if (built) await clone.markNativeBuilt();
      clone.write('nx-results.json', JSON.stringify({ exitCode: 1 }));
      const { status, stdout, stderr } = clone.run('start');
      expect([status, stdout]).toEqual([1, '']);
      expect(stderr).toContain('nx run-many');
    },
  );

  test('installs again only when the lock file changed', () => {
    clone.run('start');
    expect(clone.run('start').stderr).not.toContain('npm ci');
    clone.write('package-lock.json', '{ "changed": true }');
    // Newer than what is installed, whatever the clock's resolution.
    const later = Date.now() / 1000 + 60;
    utimesSync(join(clone.root, 'package-lock.json'), later, later);
    expect(clone.run('start').stderr).toContain('npm ci');
    expect(clone.run('start').stderr).not.toContain('npm ci');
  });

  test('stops where the packages cannot be installed', () => {
    clone.write('npm.cjs', 'process.exitCode = 1');
    const { status, stderr } = clone.run('start');
    expect(stderr).toContain('npm ci failed');
    expect(status).toBe(1);
  });
});

describe('npm test', () => {
  /** Runs it with an Nx that reports these tasks, and gives the last line and the exit code. */
  function closing(results) {
    clone.write('nx-results.json', JSON.stringify(results));
    const { status, stdout } = clone.run('test');
    return [stdout.trimEnd().split('\n').at(-1), status];
  }
  const lint = { project: 'workspace', root: '.', target: 'lint' };
  const projects = { workspace: ['lint'] };

  test('closes with the sum', () => {
    expect(closing({ tasks: [{ ...lint, status: 'success' }], projects })).toEqual([
      '1 passed, 0 failed',
      0,
    ]);
  });

  test('fails where a task fails', () => {
    const tasks = [{ ...lint, status: 'failure' }];
    expect(closing({ tasks, projects, exitCode: 1 })).toEqual(['0 passed, 1 failed', 1]);
  });

  test('fails where Nx itself fails', () => {
    expect(closing({ exitCode: 1 })).toEqual(['0 passed, 1 failed', 1]);
  });

  test('does not count reports of earlier runs', () => {
    clone.write('packages/nn/reports/tests.json', '{ "testResults": [] }');
    const tasks = [{ project: 'nn', root: 'packages/nn', target: 'test', status: 'success' }];
    expect(closing({ tasks, projects: {} })).toEqual(['0 passed, 1 failed', 1]);
  });
});

test.each([
  ['18.20.0', false],
  ['20.18.3', false],
  ['20.19.0', true],
  ['24.1.0', true],
])('Node %s is accepted: %s', (version, accepted) => {
  const exits = [];
  const { exit } = process;
  process.exit = (code) => exits.push(code);
  requireNode(version);
  process.exit = exit;
  expect(exits).toEqual(accepted ? [] : [1]);
});
