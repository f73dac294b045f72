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

test('every runner has run, golden and bench, none of them cached', async () => {
  const targets = await targetsOf();
  expect(Object.keys(targets)).toEqual(['run', 'golden', 'bench']);
  for (const target of Object.values(targets)) {
    expect(target.cache).toBe(false);
    expect(target.dependsOn).toEqual(['build', '^build-native']);
    expect(target.metadata.description).not.toBe('');
  }
  expect(targets.golden.options).toEqual({
    command: 'node dist/cli.js golden',
    cwd: '{projectRoot}',
  });
});

test('export and export-check come with src/export.ts', async () => {
  const targets = await targetsOf('src/export.ts');
  expect(targets.export.options.command).toBe('node dist/cli.js export');
  expect(targets['export-check'].cache).toBe(false);
});

test('test-model comes with the folder of its tests', async () => {
  const targets = await targetsOf('test-model/transcribe.test.ts');
  expect(targets['test-model']).toMatchObject({
    cache: false,
    dependsOn: ['build', '^build-native'],
  });
});

test('a runner.json that was installed or built makes no project', async () => {
  const copies = ['node_modules/@mlx-runners/x/runner.json', 'runners/x/dist/runner.json'];
  expect(await inferredProjects(...copies)).toEqual({});
});
