import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { HubError } from '@mlx-runners/mlx-core/errors';
import { loadRunnerManifest } from '@mlx-runners/runner';
import { afterAll, expect, test } from 'vitest';

const folder = mkdtempSync(join(tmpdir(), 'runner-json-'));
afterAll(() => rmSync(folder, { recursive: true }));

const manifest = {
  name: 'whisper',
  title: 'Whisper speech recognition',
  tasks: ['transcribe'],
  models: { 'openai/whisper-base': { aliases: ['base'], license: 'MIT' } },
  defaultModel: 'openai/whisper-base',
  exportBudgets: { encoder: { ops: { AsType: 2 }, bytes: 100_000 } },
};

function write(content: unknown): void {
  const text = typeof content === 'string' ? content : JSON.stringify(content);
  writeFileSync(join(folder, 'runner.json'), text);
}

test('a manifest is read from a folder or its URL', () => {
  write(manifest);
  expect(loadRunnerManifest(folder)).toEqual(manifest);
  expect(loadRunnerManifest(pathToFileURL(`${folder}/`))).toEqual(manifest);
  write({ ...manifest, defaultModel: 'base' });
  expect(loadRunnerManifest(folder).defaultModel).toBe('base');
});

test.each<[string, unknown, RegExp]>([
  ['a missing field', { ...manifest, title: undefined }, /runner\.json does not fit: title: /],
  ['an unknown field', { ...manifest, task: [] }, /"task"/],
  ['no task', { ...manifest, tasks: [] }, /tasks: /],
  [
    'a default that is no model',
    { ...manifest, defaultModel: 'large' },
    /defaultModel: must be the id or an alias of one of the models/,
  ],
  ['a name with spaces', { ...manifest, name: 'My Whisper' }, /name: must be lower-case/],
  ['no JSON', '{', /runner\.json is not JSON/],
])('%s is a HubError that names it', (_, content, message) => {
  write(content);
  expect(() => loadRunnerManifest(folder)).toThrow(HubError);
  expect(() => loadRunnerManifest(folder)).toThrow(message);
});

test('all mistakes are named at once', () => {
  write({ ...manifest, title: '', tasks: [] });
  expect(() => loadRunnerManifest(folder)).toThrow(/title: .*; tasks: /);
});

test('a folder without a manifest', () => {
  expect(() => loadRunnerManifest(join(folder, 'absent'))).toThrow(
    /runner\.json can't be read: there is no such file/,
  );
});
