import { join } from 'node:path';
import { mx, UsageError } from '@mlx-runners/mlx-core';
import {
  checkExport,
  formatReport,
  inspectExport,
  type CheckOptions,
  type Finding,
} from '@mlx-runners/program';
import { expect, test } from 'vitest';
import { editManifest, rehash } from './edits.js';
import { cachedAttention, exported, linearRows, normal } from './models.js';

const { method, parameters } = linearRows;
const { weight } = parameters;

const options: CheckOptions = { methods: { run: method } };

async function failures(folder: string, changed: Partial<CheckOptions> = {}): Promise<Finding[]> {
  return (await checkExport(folder, { ...options, ...changed })).filter(({ ok }) => !ok);
}

test('an export that is as it should be passes, and everything was looked at', async () => {
  const folder = await exported({ run: method }, parameters);
  const findings = await checkExport(folder, {
    ...options,
    budgets: {
      bytes: 10_000,
      methods: { run: { bytes: 2000, traces: [{ instructions: 2, ops: { linear: 1 } }] } },
    },
    constants: [],
  });
  expect(findings.filter(({ ok }) => !ok)).toEqual([]);
  expect(findings.map(({ what }) => what)).toEqual([
    'files',
    'methods',
    'bytes of all files',
    'run: bytes of its program',
    'run: instructions',
    'run: astype',
    'run: linear',
    'run: upcasts',
    'published constants',
    'constants stored once',
    expect.stringMatching(/^run: results at \{"T":\d+\}$/),
    expect.stringMatching(/^run: results at \{"T":\d+\}$/),
  ]);
});

test('a constant that is stored twice fails', async () => {
  const folder = await exported({ run: method }, parameters);
  const path = join(folder, 'weights.safetensors');
  mx.saveSafetensors(path, { weight, again: weight });
  rehash(folder, 'weights.safetensors');
  expect(await failures(folder)).toEqual([
    { what: 'constants stored once', ok: false, found: expect.stringMatching(/ is /) as string },
  ]);
});

test('a published constant that is missing fails', async () => {
  const folder = await exported({ run: method }, parameters);
  expect(await failures(folder, { constants: ['contextLength'] })).toEqual([
    { what: 'published constants', ok: false, found: 'without contextLength' },
  ]);
});

test('a method that the budgets leave out fails', async () => {
  const folder = await exported({ run: method, again: method }, parameters);
  const methods = { run: method, again: method };
  const budgets = { methods: { run: {} } };
  const failed = (await checkExport(folder, { methods, budgets })).filter(({ ok }) => !ok);
  expect(failed).toEqual([{ what: 'again: budget', ok: false, found: 'none' }]);
});

test.each<[unknown, RegExp]>([
  [undefined, /options of checkExport\(\) must be an object/],
  [{}, /methods must be an object of methods by name/],
  [{ methods: {}, budget: {} }, /has no option budget: did you mean budgets/],
  [{ methods: {}, budgets: { methods: { run: { traces: [{ instruction: 1 }] } } } }, /instruction/],
  [{ methods: {}, tolerance: Infinity }, /tolerance must be/],
])('options that make no sense: %j', async (options, message) => {
  const folder = await exported({ run: method }, parameters);
  const checked = checkExport(folder, options as CheckOptions);
  await expect(checked).rejects.toThrow(UsageError);
  await expect(checkExport(folder, options as CheckOptions)).rejects.toThrow(message);
});

test('an invalid manifest fails', async () => {
  const folder = await exported({ run: method }, parameters);
  editManifest(folder, (manifest) => Object.assign(manifest, { methods: 3 }));
  const [failure] = await failures(folder);
  expect(failure.what).toBe('files');
  expect(failure.found).toMatch(/is not the manifest of an exported model: methods/);
});

test('methods that only the export or only the model has fail', async () => {
  const folder = await exported({ run: method, old: method }, parameters);
  expect(await failures(folder, { methods: { run: method, added: method } })).toEqual([
    { what: 'methods', ok: false, found: 'without added; the model has no old' },
  ]);
});

test('a changed file fails', async () => {
  const folder = await exported({ run: method }, parameters);
  mx.saveSafetensors(join(folder, 'weights.safetensors'), { weight: normal(2, [4, 4]) });
  const [failure] = await failures(folder);
  expect(failure.found).toMatch(/weights\.safetensors is not the file that was exported/);
});

test('the report of an export', async () => {
  const cached = cachedAttention();
  const folder = await exported(
    { step: cached.method, run: method },
    { ...cached.parameters, weight },
  );
  const report = inspectExport(folder);
  expect(report.stateBytes).toBe(2 * 2 * 16 * 4 * 4);
  expect(report.weightBytes).toEqual({ float32: 3 * 64 * 4 + 16 * 4 });
  expect(report.methods.run.traces[0]).toMatchObject({
    instructions: 2,
    ops: { linear: 1, add: 1 },
    temporaries: 1,
    // linear and what it is added to share memory.
    peakBytes: { smallest: 16, largest: 320 },
  });
  const text = formatReport(report);
  expect(text).toContain('test/model; float32; format 1');
  expect(text).toContain('step(x: float32[1, T, 8]) → y: float32[1, T, 8]');
  expect(text).toContain('  T 1 to 8; past 0 to 15\n');
  const constants = { kvHeads: [3, 3, 3], windows: [0, 512] };
  const withLists = formatReport({ ...report, manifest: { ...report.manifest, constants } });
  expect(withLists).toContain('\n  kvHeads: 3 x 3\n  windows: [0,512]\n');
  expect(text).toContain('  2 instructions, 1 temporary slots, about 16 bytes to 320 bytes');
});
