import { join } from 'node:path';
import { mx, ProgramError, UsageError, type MxArray } from '@mlx-runners/mlx-core';
import { AbortedError } from '@mlx-runners/mlx-core/errors';
import { dtypeNames } from '@mlx-runners/mlx-core/program';
import {
  compileModel,
  type ExportDescription,
  type Method,
  type ProgramModel,
} from '@mlx-runners/program';
import { expect, test } from 'vitest';
import { cachedAttention, loaded, normal, numbers, scratchFolder } from './models.js';

function described(
  methods: ExportDescription['methods'],
  parameters: Record<string, MxArray> = {},
): ExportDescription {
  return {
    model: { id: 'test/model' },
    dtype: 'float32',
    methods,
    parameters: new Map(Object.entries(parameters)),
  };
}

function compiled(...model: Parameters<typeof described>): Promise<ProgramModel> {
  return compileModel(described(...model));
}

test('a compiled method gives what the exported one gives, states and all', async () => {
  const { method, parameters } = cachedAttention();
  const once = { ...method, dimensions: { ...method.dimensions, T: { min: 1, max: 1 } } };
  const methods = { forward: [once, method] };
  const sessions = [
    (await compiled(methods, parameters)).session(),
    (await loaded(methods, parameters)).session(),
  ];
  for (const [length, past] of [
    [5, 0],
    [1, 5],
    [1, 6],
    [8, 7],
  ]) {
    const x = normal(past, [1, length, 8]);
    const [y, expected] = await Promise.all(
      sessions.map(async (session) => {
        const { outputs } = await session.run('forward', { x, past });
        return numbers(outputs.y);
      }),
    );
    for (const [i, value] of y.entries()) expect(value).toBeCloseTo(expected[i], 5);
  }
});

test('what is published of it is what an export publishes', async () => {
  const { method, parameters } = cachedAttention();
  const description = { ...described({ step: method }, parameters), constants: { capacity: 16 } };
  const { manifest } = await compileModel(description);
  const { formatVersion, weights, files, sha256, ...rest } = (
    await loaded({ step: method }, parameters)
  ).manifest;
  expect([formatVersion, weights.length, Object.keys(files).length, sha256.length]).toEqual([
    1, 1, 2, 64,
  ]);
  const { program, ...signature } = rest.methods.step;
  expect(program).toBe('programs/step.json');
  expect(manifest).toEqual({ ...rest, constants: { capacity: 16 }, methods: { step: signature } });
});

test('weights are shared, mapped ones too, and outlive the arrays that they were', async () => {
  const path = join(scratchFolder(), 'weights.safetensors');
  const [q, k] = [normal(1, [512, 512]), normal(2, [512, 512])];
  mx.saveSafetensors(path, { q, k });
  const { tensors } = mx.loadSafetensors(path);
  const both: Method = {
    dimensions: { T: { min: 1, max: 100 } },
    inputs: { x: { dtype: 'float32', shape: ['T', 512] } },
    run: ({ x }) => ({
      y: mx.linear(x, tensors.get('q')!).add(x.matmul(tensors.get('k')!.transpose())),
    }),
  };
  const before = mx.memory().active;
  const model = await compileModel({ ...described({ both }), parameters: tensors });
  expect(mx.memory().active - before).toBeLessThan(1024);
  for (const tensor of tensors.values()) tensor.dispose();
  const x = normal(3, [2, 512]);
  const { outputs } = await model.session().run('both', { x });
  const expected = await numbers(mx.linear(x, q).add(mx.linear(x, k)));
  for (const [i, value] of (await numbers(outputs.y)).entries()) {
    expect(value).toBeCloseTo(expected[i], 3);
  }
});

test('weights that are yet to be computed are computed', async () => {
  const weight = normal(1, [200, 200]).multiply(2);
  const scale: Method = {
    inputs: { x: { dtype: 'float32', shape: [200, 200] } },
    run: ({ x }) => ({ y: x.multiply(weight) }),
  };
  const session = (await compiled({ scale }, { weight })).session();
  const { outputs } = await session.run('scale', { x: mx.ones([200, 200]) });
  expect(await numbers(outputs.y)).toEqual(await numbers(weight));
});

test('sizes that are rounded or clamped are found at few traces, too', async () => {
  const windows: Method = {
    dimensions: { T: { min: 1, max: 3000 }, past: { min: 0, max: 999 } },
    limits: [{ size: ['+', 'past', 'T'], max: 3500 }],
    inputs: { x: { dtype: 'float32', shape: ['T'] } },
    run: ({ x }, { T, past }) => {
      const padded = mx.pad(x, [0, Math.ceil(T / 160) * 160 - T]);
      return { y: padded.reshape([-1, 160]), z: mx.zeros([Math.max(past + T - 700, 1)]) };
    },
  };
  const session = (await compiled({ windows })).session();
  for (const [size, past] of [
    [159, 3],
    [160, 541],
    [161, 540],
    [2999, 500],
  ]) {
    const { outputs } = await session.run('windows', { x: mx.zeros([size]), past });
    expect(outputs.y.shape).toEqual([Math.ceil(size / 160), 160]);
    expect(outputs.z.shape).toEqual([Math.max(past + size - 700, 1)]);
  }
});

test('errors: descriptions, methods that do other things elsewhere, aborts', async () => {
  const branch: Method = {
    dimensions: { T: { min: 1, max: 100 } },
    inputs: { x: { dtype: 'float32', shape: ['T'] } },
    run: ({ x }, { T }) => ({ y: T > 1 ? x.add(1) : x.exp() }),
  };
  await expect(compiled({ branch })).rejects.toThrow(ProgramError);
  const { method, parameters } = cachedAttention();
  const wrong = { ...described({ method }, parameters), dtype: 'float' };
  await expect(compileModel(wrong as never)).rejects.toThrow(
    new UsageError(`dtype must be one of ${dtypeNames.join(', ')}, not 'float'.`),
  );
  const signal = AbortSignal.abort();
  await expect(compileModel(described({ method }, parameters), { signal })).rejects.toThrow(
    AbortedError,
  );
});
