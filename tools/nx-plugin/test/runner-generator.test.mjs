import { existsSync, mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import runnerGenerator from '../src/generators/runner/generator.mjs';
import { nx, runNode } from './nx-command.mjs';
import { copyWorkspace, workspaceRoot } from './workspace-copy.mjs';

const TIMEOUT = 300_000;

let workspace;
beforeAll(() => {
  workspace = realpathSync(mkdtempSync(join(tmpdir(), 'mlx-runners-generated-')));
  copyWorkspace(workspace);
  const { status, output } = nx(
    workspace,
    ...['g', '@mlx-runners/nx-plugin:runner', 'tiny-probe.2', '--skipInstall'],
  );
  expect(output).toContain('CREATE runners/tiny-probe.2/src/model.ts');
  expect(status).toBe(0);
}, TIMEOUT);
afterAll(() => rmSync(workspace, { recursive: true, force: true }));

test('a new runner builds, type-checks and passes its tests', { timeout: TIMEOUT }, () => {
  const { status, output } = nx(
    workspace,
    ...['run-many', '--targets=build,typecheck,test', '--projects=tiny-probe.2'],
    // What it depends on is built: compiling the addon again would take minutes.
    ...['--exclude-task-dependencies', '--skip-sync', '--output-style=stream'],
  );
  expect(output).toMatch(/Tests .*6 passed/);
  expect(status).toBe(0);
});

test('a new runner’s run target takes paths as the user typed them', { timeout: TIMEOUT }, () => {
  const { status, output } = nx(
    workspace,
    ...['run', 'tiny-probe.2:run', '--exclude-task-dependencies', '--skip-sync'],
    ...['--', 'my features.json', '--model', '.'],
  );
  expect(output).toContain(`${workspace}/my features.json is no JSON array of numbers`);
  expect(status).not.toBe(0);
});

test('says what it makes', { timeout: TIMEOUT }, () => {
  const { output } = nx(workspace, 'g', '@mlx-runners/nx-plugin:runner', '--help');
  expect(output).toContain('Makes a runner: a folder that builds, tests and runs at once.');
  expect(output).not.toContain('undefined');
});

test('a new runner is linted and formatted', { timeout: TIMEOUT }, () => {
  const lint = runNode(workspace, 'node_modules/eslint/bin/eslint.js', 'runners/tiny-probe.2');
  expect(lint.output).toBe('');
  const format = runNode(
    workspace,
    ...[
      'node_modules/prettier/bin/prettier.cjs',
      '--check',
      'runners/tiny-probe.2',
      'tsconfig.json',
    ],
  );
  expect(format.output).toContain('All matched files use Prettier code style!');
});

test.each([
  ['whisper', 'runners/whisper is there already.'],
  ['Bad_Name', '"Bad_Name" can\'t name a runner'],
])('refuses the name %s', async (name, message) => {
  // A tree that only looks: writing to it would fail otherwise.
  const tree = { exists: (path) => existsSync(join(workspaceRoot, path)) };
  await expect(runnerGenerator(tree, { name })).rejects.toThrow(message);
});
