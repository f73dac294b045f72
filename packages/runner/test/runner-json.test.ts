import { HubError } from '@mlx-runners/mlx-core/errors';
import { parseRunnerManifest } from '@mlx-runners/runner/library';
import { expect, test } from 'vitest';

const manifest = {
  name: 'whisper',
  title: 'Whisper speech recognition',
  tasks: ['transcribe'],
  models: { 'openai/whisper-base': { aliases: ['base'], license: 'MIT' } },
  defaultModel: 'openai/whisper-base',
  exportBudgets: {
    bytes: 1_000_000,
    methods: { encode: { traces: [{ instructions: 9, ops: { astype: 2 } }], bytes: 100_000 } },
  },
};

test('a manifest that fits', () => {
  expect(parseRunnerManifest(manifest)).toEqual(manifest);
  expect(parseRunnerManifest({ ...manifest, defaultModel: 'base' }).defaultModel).toBe('base');
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
  [
    'an unknown field of budgets',
    { ...manifest, exportBudgets: { encode: { instructions: 9 } } },
    /exportBudgets: .*"encode"/,
  ],
  [
    'an unknown field of a budget',
    { ...manifest, exportBudgets: { methods: { encode: { traces: [{ instruction: 9 }] } } } },
    /exportBudgets\.methods\.encode\.traces\.0: .*"instruction"/,
  ],
  ['no object', 'whisper', /runner\.json does not fit: /],
])('%s is a HubError that names it', (_, content, message) => {
  expect(() => parseRunnerManifest(content)).toThrow(HubError);
  expect(() => parseRunnerManifest(content)).toThrow(message);
});

test('all mistakes are named at once', () => {
  const content = { ...manifest, title: '', tasks: [] };
  expect(() => parseRunnerManifest(content)).toThrow(/title: .*; tasks: /);
});
