import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { summarize } from '../src/summary.mjs';

let workspaceRoot;
beforeEach(() => {
  workspaceRoot = mkdtempSync(join(tmpdir(), 'mlx-runners-summary-'));
});
afterEach(() => rmSync(workspaceRoot, { recursive: true }));

function report(name, ...testResults) {
  const folder = join(workspaceRoot, 'packages/nn/reports');
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, `${name}.json`), JSON.stringify({ testResults }));
}

const file = (status, ...assertionResults) => ({
  name: 'a.test.ts',
  status,
  message: '',
  assertionResults,
});
const passing = { fullName: 'adds', status: 'passed' };
const failing = { fullName: 'subtracts', status: 'failed' };

/** The summary's lines for a run of nn's tests that ended with this status. */
function linesOf(status, { target = 'test', exitCode = status === 'failure' ? 1 : 0 } = {}) {
  const results = {
    tasks: [{ project: 'nn', root: 'packages/nn', target, status }],
    projects: { nn: [target] },
  };
  return summarize({ results, targets: [target], exitCode, workspaceRoot }).lines;
}

test('counts each test', () => {
  report('tests', file('passed', passing, passing), file('failed', passing, failing));
  expect(linesOf('failure')).toEqual(['Failed:', '  nn:test: subtracts', '', '3 passed, 1 failed']);
});

test('counts tests whose results came from the cache', () => {
  report('tests', file('passed', passing));
  expect(linesOf('local-cache')).toEqual(['1 passed, 0 failed']);
});

test('says which tests were skipped and why', () => {
  const skipped = { fullName: 'real weights', status: 'skipped', meta: { skipReason: 'no hub' } };
  report('test-model', file('passed', skipped, passing));
  expect(linesOf('success', { target: 'test-model' })).toEqual([
    'Skipped:',
    '  nn:test-model: real weights (no hub)',
    '',
    '1 passed, 0 failed',
  ]);
});

test('counts a file that could not be loaded', () => {
  report('tests', { ...file('failed'), message: 'no such module' }, file('passed', passing));
  expect(linesOf('failure').slice(1)).toEqual([
    '  nn:test: a.test.ts no such module',
    '',
    '1 passed, 1 failed',
  ]);
});

test('counts a runner that died although no test failed', () => {
  report('tests', file('passed', passing));
  expect(linesOf('failure')[1]).toBe('  nn:test failed outside of its tests');
});

test('counts tests that left no report', () => {
  expect(linesOf('success')[1]).toBe('  nn:test left no report');
});

test('counts tasks that were given up because another failed', () => {
  const { lines, failed } = summarize({
    results: {
      tasks: [{ project: 'nn', root: 'packages/nn', target: 'build', status: 'failure' }],
      projects: { nn: ['build', 'test', 'serve'], speech: ['test'] },
    },
    targets: ['build', 'test'],
    exitCode: 1,
    workspaceRoot,
  });
  expect(lines).toEqual([
    'Failed:',
    '  nn:build',
    '  nn:test did not run, because what it needs failed',
    '  speech:test did not run, because what it needs failed',
    '',
    '0 passed, 3 failed',
  ]);
  expect(failed).toBe(3);
});

test('fails where Nx fails after all tasks passed', () => {
  expect(linesOf('success', { target: 'lint', exitCode: 130 }).at(-1)).toBe('1 passed, 1 failed');
});
