import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createNodes } from '../src/plugin.mjs';

let workspaceRoot;
beforeEach(() => {
  workspaceRoot = mkdtempSync(join(tmpdir(), 'mlx-runners-targets-'));
});
afterEach(() => rmSync(workspaceRoot, { recursive: true }));

/** The targets inferred for `runners/demo`, which has these files besides its runner.json. */
async function targetsOf(...files) {
  for (const file of ['runner.json', ...files]) {
    const path = join(workspaceRoot, 'runners/demo', file);
    mkdirSync(join(path, '..'), { recursive: true });
    writeFileSync(path, '{}');
  }
  const projects = await inferredProjects('runners/demo/runner.json');
  return projects['runners/demo'].targets;
}

async function inferredProjects(...configFiles) {
  const [, infer] = createNodes;
  const results = await infer(configFiles, undefined, { workspaceRoot, nxJsonConfiguration: {} });
  return Object.assign({}, ...results.map(([, { projects }]) => projects));
}

test('every runner has run, bundle, golden and bench, none of them cached', async () => {
  const targets = await targetsOf();
  expect(Object.keys(targets)).toEqual(['run', 'bundle', 'golden', 'bench']);
  for (const target of Object.values(targets)) {
    expect(target.cache).toBe(false);
    expect(target.dependsOn).toEqual(['build', '^build-native']);
    expect(target.metadata.description).not.toBe('');
  }
  expect(targets.golden.options).toEqual({
    command: 'node dist/cli.js golden',
    cwd: '{projectRoot}',
  });
  expect(targets.bundle.options.command).toBe('node ../../tools/packaging/bundle.mjs');
});

test('export, export-check and inspect come with src/export.ts', async () => {
  const targets = await targetsOf('src/export.ts');
  expect(targets.export.options.command).toBe('node dist/cli.js export');
  expect(targets['export-check'].cache).toBe(false);
  expect(targets.inspect.options.command).toBe('node dist/cli.js inspect');
});

test('test-model comes with the folder of its tests', async () => {
  const targets = await targetsOf('test-model/transcribe.test.ts');
  expect(targets['test-model']).toMatchObject({
    cache: false,
    dependsOn: ['build', '^build-native'],
  });
});

test('fuzz comes with test/fuzz.test.ts, in packages as well, and is not cached', async () => {
  const projects = await inferredProjects('packages/demo/test/fuzz.test.ts');
  const { fuzz } = projects['packages/demo'].targets;
  expect(fuzz.options).toEqual({ command: 'vitest run --mode fuzz', cwd: '{projectRoot}' });
  expect(fuzz.cache).toBe(false);
});

test('a runner.json that was installed or built makes no project', async () => {
  const copies = ['node_modules/@mlx-runners/x/runner.json', 'runners/x/dist/runner.json'];
  expect(await inferredProjects(...copies)).toEqual({});
});
