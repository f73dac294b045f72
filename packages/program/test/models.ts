/** Small models for tests. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { mx, type MxArray } from '@mlx-runners/mlx-core';
import {
  exportModel,
  loadExport,
  type ExportDescription,
  type ExportedModel,
  type Method,
} from '@mlx-runners/program';
import { onTestFinished } from 'vitest';

/** The same numbers in every run. */
export function normal(seed: number, shape: readonly number[]): MxArray {
  return mx.randomNormal(mx.randomKey(seed), shape);
}

export function scratchFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'mlx-program-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Exports methods to a folder of the test. */
export async function exported(
  methods: ExportDescription['methods'],
  parameters: Record<string, MxArray> = {},
): Promise<string> {
  const folder = join(scratchFolder(), 'model');
  await exportModel(folder, {
    model: { id: 'test/model' },
    dtype: 'float32',
    methods,
    parameters: new Map(Object.entries(parameters)),
  });
  return folder;
}

export async function loaded(
  methods: ExportDescription['methods'],
  parameters: Record<string, MxArray> = {},
): Promise<ExportedModel> {
  return loadExport(await exported(methods, parameters));
}

export async function numbers(array: MxArray): Promise<number[]> {
  return Array.from(await array.data(), Number);
}

const square = normal(1, [4, 4]);

/** A linear layer and its residual, over rows x [T, 4]. */
export const linearRows: { method: Method; parameters: { weight: MxArray } } = {
  method: {
    dimensions: { T: { min: 1, max: 20 } },
    inputs: { x: { dtype: 'float32', shape: ['T', 4] } },
    run: ({ x }) => ({ y: mx.linear(x, square).add(x) }),
  },
  parameters: { weight: square },
};

const [width, heads, capacity] = [8, 2, 16];

/** One layer of attention over a cache of 16 positions, written at `past`. */
export function cachedAttention(): {
  method: Method;
  parameters: Record<string, MxArray>;
} {
  const weights = Object.fromEntries(
    ['q', 'k', 'v'].map((name, i) => [`${name}.weight`, normal(i, [width, width])]),
  );
  const split = (x: MxArray): MxArray =>
    x.reshape([1, x.shape[1], heads, width / heads]).transpose([0, 2, 1, 3]);
  const cache = { dtype: 'float32', shape: [1, heads, capacity, width / heads] } as const;
  const method: Method = {
    dimensions: { T: { min: 1, max: 8 }, past: { min: 0, max: capacity - 1 } },
    limits: [{ size: ['+', 'past', 'T'], max: capacity }],
    inputs: { x: { dtype: 'float32', shape: [1, 'T', width] } },
    states: { keys: cache, values: cache },
    run: ({ x }, { past }, states) => {
      const length = x.shape[1];
      const project = (name: string): MxArray => split(mx.linear(x, weights[`${name}.weight`]));
      const append = (name: string, added: MxArray): MxArray => {
        const end = [1, heads, past + length, width / heads];
        states[name] = mx.sliceUpdate(states[name], added, [0, 0, past, 0], end);
        return states[name].slice([0, 0, 0, 0], end);
      };
      const keys = append('keys', project('k'));
      const values = append('values', project('v'));
      const attended = mx.scaledDotProductAttention(project('q'), keys, values, 0.5, 'causal');
      return { y: attended.transpose([0, 2, 1, 3]).reshape([1, length, width]) };
    },
  };
  return { method, parameters: weights };
}
