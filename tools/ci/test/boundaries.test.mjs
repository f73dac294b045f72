import { join } from 'node:path';
import { ESLint } from 'eslint';
import { expect, test } from 'vitest';

const workspaceRoot = join(import.meta.dirname, '../../..');
const eslint = new ESLint({ cwd: workspaceRoot });

/** What the rules on imports say when a file of the workspace held this import. */
async function complaints(file, imported) {
  const [{ messages }] = await eslint.lintText(`export * from '${imported}';\n`, {
    filePath: join(workspaceRoot, file),
  });
  return messages
    .filter(({ ruleId }) => /enforce-module-boundaries|no-restricted-imports/.test(ruleId ?? ''))
    .map(({ message }) => message);
}

test('the layers hold', { timeout: 120_000 }, async () => {
  expect(await complaints('packages/nn/src/index.ts', '@mlx-runners/speech')).toEqual([
    expect.stringMatching(/^A project tagged with "layer:nn" can only depend on/),
  ]);
});

test.each([
  ['packages/mlx-core/src/index.ts', '@mlx-runners/nn'],
  ['packages/speech/src/index.ts', '@mlx-runners/whisper'],
  ['packages/test-fixtures/src/index.ts', '@mlx-runners/mlx-core'],
])('%s must not import %s, which depends on it', async (file, imported) => {
  expect(await complaints(file, imported)).toEqual([
    expect.stringContaining('Circular dependency'),
  ]);
});

test('sources must not import test fixtures', async () => {
  const [message, ...others] = await complaints(
    'packages/nn/src/index.ts',
    '@mlx-runners/test-fixtures',
  );
  expect(message).toContain('Test fixtures are for tests only.');
  expect(others).toEqual([]);
});

test('nothing reaches into another project by a relative path', async () => {
  expect(await complaints('packages/nn/src/index.ts', '../../mlx-core/src/index.js')).toEqual([
    expect.stringContaining('relative'),
  ]);
});

test.each([
  ['packages/nn/src/index.ts', '@mlx-runners/mlx-core'],
  ['packages/runner/src/index.ts', '@mlx-runners/hub'],
  ['runners/whisper/src/index.ts', '@mlx-runners/speech'],
])('%s may import %s', async (file, imported) => {
  expect(await complaints(file, imported)).toEqual([]);
});
