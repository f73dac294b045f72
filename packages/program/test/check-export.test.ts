import { join } from 'node:path';
import { mx } from '@mlx-runners/mlx-core';
import {
  checkExport,
  formatReport,
  inspectExport,
  loadExport,
  type CheckOptions,
  type Finding,
  type Method,
} from '@mlx-runners/program';
import { expect, test } from 'vitest';
import { editManifest, rehash } from './edits.js';
import { cachedAttention, exported, normal } from './models.js';

const weight = normal(1, [4, 4]);
const parameters = { weight };

const method: Method = {
  dimensions: { T: { min: 1, max: 20 } },
  inputs: { x: { dtype: 'float32', shape: ['T', 4] } },
  run: ({ x }) => ({ y: mx.linear(x, weight).add(x) }),
};

const options: CheckOptions = { methods: { run: method } };

async function failures(folder: string, changed: Partial<CheckOptions> = {}): Promise<Finding[]> {
  return (await checkExport(folder, { ...options, ...changed })).filter(({ ok }) => !ok);
}

test('an export that is as it should be passes, and everything was looked at', async () => {
  const folder = await exported({ run: method }, parameters);
  const findings = await checkExport(folder, {
    ...options,
    budgets: { run: { instructions: 2, ops: { linear: 1 }, bytes: 2000 } },
    bytes: 10_000,
    constants: [],
  });
  expect(findings.filter(({ ok }) => !ok)).toEqual([]);
  expect(findings.map(({ what }) => what)).toEqual([
    'files',
    'bytes of all files',
    'run: bytes of its program',
    'run: instructions',
    'run: astype',
    'run: linear',
    'published constants',
    'constants stored once',
    expect.stringMatching(/^run: results at \{"T":\d+\}$/),
  ]);
});

test('caches and host integers are compared too', async () => {
  const cached = cachedAttention();
  const folder = await exported({ step: cached.method }, cached.parameters);
  expect(await failures(folder, { methods: { step: cached.method } })).toEqual([]);
});

test('a cast beyond the budget fails', async () => {
  const cast: Method = {
    ...method,
    run: ({ x }) => ({ y: x.astype('float16').add(1).astype('float32') }),
  };
  const folder = await exported({ run: cast });
  expect(await failures(folder, { methods: { run: cast } })).toEqual([
    { what: 'run: astype', ok: false, found: '2, at most 0' },
  ]);
  const allowed = { run: { ops: { astype: 2 } } };
  expect(await failures(folder, { methods: { run: cast }, budgets: allowed })).toEqual([]);
});

test('too many instructions fail', async () => {
  const folder = await exported({ run: method }, parameters);
  const budgets = { run: { instructions: 1 } };
  expect(await failures(folder, { budgets })).toEqual([
    { what: 'run: instructions', ok: false, found: '2, at most 1' },
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

test('a result that drifts fails', async () => {
  const folder = await exported({ run: method }, parameters);
  const drifting: Method = {
    ...method,
    run: ({ x }) => ({ y: mx.linear(x, weight).add(0.1).add(x) }),
  };
  const [failure, ...others] = await failures(folder, { methods: { run: drifting } });
  expect(others).toEqual([]);
  expect(failure.what).toMatch(/^run: results/);
  expect(failure.found).toMatch(/e-[1-3] of their range, at most 1e-4/);
});

test('a published constant that is missing fails', async () => {
  const folder = await exported({ run: method }, parameters);
  expect(await failures(folder, { constants: ['contextLength'] })).toEqual([
    { what: 'published constants', ok: false, found: 'without contextLength' },
  ]);
});

test('too many bytes fail', async () => {
  const folder = await exported({ run: method }, parameters);
  const failed = await failures(folder, { bytes: 100, budgets: { run: { bytes: 10 } } });
  expect(failed.map(({ what }) => what)).toEqual([
    'bytes of all files',
    'run: bytes of its program',
  ]);
});

test('an invalid manifest fails', async () => {
  const folder = await exported({ run: method }, parameters);
  editManifest(folder, (manifest) => Object.assign(manifest, { methods: 3 }));
  const [failure] = await failures(folder);
  expect(failure.what).toBe('files');
  expect(failure.found).toMatch(/is not the manifest of an exported model: methods/);
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
  expect(text).toContain('  2 instructions, 1 temporary slots, about 0.00 MB');
});

test('the estimate of memory is near what MLX counts', async () => {
  const wide: Method = {
    inputs: { x: { dtype: 'float32', shape: [512, 1024] } },
    run: ({ x }) => {
      let y = x;
      for (let i = 0; i < 6; i++) {
        y = y.add(mx.linear(mx.linear(y, up).gelu(), down));
      }
      return { y };
    },
  };
  const up = normal(3, [4096, 1024]).multiply(0.01);
  const down = normal(4, [1024, 4096]).multiply(0.01);
  const folder = await exported({ wide }, { up, down });
  const [{ peakBytes }] = inspectExport(folder).methods.wide.traces;
  const session = loadExport(folder).session();
  const x = normal(5, [512, 1024]);
  await mx.eval(x);
  const before = mx.memory().active;
  mx.resetPeakMemory();
  await session.run('wide', { x });
  const measured = mx.memory().peak - before;
  expect(measured / peakBytes.largest).toBeGreaterThan(0.75);
  expect(measured / peakBytes.largest).toBeLessThan(1.25);
});
