/** What passes make of a method. */
import { mx, type MxArray } from '@mlx-runners/mlx-core';
import { exportModel, loadExport, readExport, type Method, type Pass } from '@mlx-runners/program';
import { join } from 'node:path';
import { expect } from 'vitest';
import { normal, scratchFolder } from './models.js';

/** The ops that passes make of a method of x [1, T, 64], which gives the same to the bit as without them. */
export async function sameWith(passes: readonly Pass[], run: Method['run']): Promise<string[]> {
  const folder = scratchFolder();
  const method: Method = {
    dimensions: { T: { min: 1, max: 40 } },
    inputs: { x: { dtype: 'float32', shape: [1, 'T', 64] } },
    run,
  };
  for (const [name, these] of [
    ['before', []],
    ['after', passes],
  ] as const) {
    await exportModel(join(folder, name), {
      model: { id: 'test/same' },
      dtype: 'float32',
      methods: { run: method },
      parameters: new Map(),
      passes: these,
    });
  }
  const [before, after] = ['before', 'after'].map((name) =>
    loadExport(join(folder, name)).session(),
  );
  for (const length of [1, 3, 40]) {
    const x = normal(length, [1, length, 64]);
    const results = async (session: typeof before): Promise<unknown> => {
      const { outputs } = await session.run('run', { x });
      const data = Object.entries(outputs).map(async ([name, y]): Promise<[string, unknown]> => [
        name,
        await y.data(),
      ]);
      return Object.fromEntries(await Promise.all(data));
    };
    expect(await results(after)).toEqual(await results(before));
  }
  const [trace] = readExport(join(folder, 'after')).programs[0].traces;
  return trace.instructions.map(({ op }) => op);
}

/** Weights [rows, 64] in blocks of a GGUF format. */
export function blocksOf(seed: number, rows: number, format: string): MxArray {
  const blocks = mx.blockQuantize(normal(seed, [rows, 64]), format);
  mx.evalSync(blocks);
  return blocks;
}
