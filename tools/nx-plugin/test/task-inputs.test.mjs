import { describe, expect, test } from 'vitest';
import { nx } from './nx-command.mjs';
import { workspaceRoot } from './workspace-copy.mjs';

describe('the hash of a runner’s tests', () => {
  const { stdout, output } = nx(
    workspaceRoot,
    'show',
    'target',
    'inputs',
    'whisper:test',
    '--json',
  );
  const files = () => {
    expect(output).toContain('"files"');
    return JSON.parse(stdout).files;
  };

  test('takes in the C++ sources', () => {
    expect(files()).toContain('packages/mlx-core/native/core/lanes.cpp');
  });

  test('takes in its own sources and those of its libraries', () => {
    expect(files()).toContain('runners/whisper/src/model.ts');
    expect(files()).toContain('packages/nn/src/module.ts');
  });

  test('leaves prose and the tests of its libraries alone', () => {
    expect(files().filter((file) => file.endsWith('.md'))).toEqual([]);
    expect(files().filter((file) => file.startsWith('packages/nn/test/'))).toEqual([]);
  });
});

test('the native build depends on no TypeScript, and nothing on what it made', () => {
  const inputsOf = (task) =>
    JSON.parse(nx(workspaceRoot, 'show', 'target', 'inputs', task, '--json').stdout).files;
  const native = inputsOf('mlx-core:build-native');
  expect(native).toContain('packages/mlx-core/CMakeLists.txt');
  expect(native.filter((file) => file.endsWith('.ts'))).toEqual([]);
  expect(inputsOf('mlx-core:test').filter((file) => /\.(node|so|dylib)$/.test(file))).toEqual([]);
});

describe('nx affected', () => {
  const affectedBy = (file) => {
    const { stdout, output } = nx(
      workspaceRoot,
      'show',
      'projects',
      '--affected',
      `--files=${file}`,
      '--json',
    );
    expect(output).toContain('[');
    return JSON.parse(stdout);
  };

  test('finds every project on mlx-core after a change in C++', () => {
    const projects = affectedBy('packages/mlx-core/native/core/lanes.cpp');
    expect(projects).toEqual(
      expect.arrayContaining(['mlx-core', 'nn', 'speech', 'runner', 'whisper']),
    );
    expect(projects).not.toContain('test-fixtures');
  });

  test('finds nothing after a change in a README', () => {
    expect(affectedBy('runners/whisper/README.md')).toEqual([]);
  });
});
