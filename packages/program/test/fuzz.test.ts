import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CheckpointError, MlxRunnersError, mx, ProgramError } from '@mlx-runners/mlx-core';
import { loadExport } from '@mlx-runners/program';
import {
  byteMutations,
  expectRefusal,
  fuzz,
  inSafetensorsHeader,
  jsonMutations,
  type Files,
  type Reading,
} from '@mlx-runners/test-fixtures';
import { afterEach, beforeEach, test } from 'vitest';
import { rehashed } from './edits.js';
import { cachedAttention, exported, normal } from './models.js';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'program-fuzz-'));
  // What a damaged shape would take is refused, not tried.
  mx.setMemoryLimit(64 << 20);
});
afterEach(() => rmSync(folder, { recursive: true }));

/** Where the files of a case lie in the folder: kept ones lie flat. */
const places = {
  'manifest.json': 'manifest.json',
  'step.json': 'programs/step.json',
  'weights.safetensors': 'weights.safetensors',
};

/** Loads a folder of just these files, whose hashes fit, and calls what is left of its method. */
async function run(files: Files): Promise<Reading> {
  const others = {
    'programs/step.json': files['step.json'],
    'weights.safetensors': files['weights.safetensors'],
  };
  const written = { ...others, 'manifest.json': rehashed(String(files['manifest.json']), others) };
  mkdirSync(join(folder, 'programs'), { recursive: true });
  for (const [place, content] of Object.entries(written)) {
    writeFileSync(join(folder, place), content);
  }
  let model: ReturnType<typeof loadExport>;
  try {
    model = loadExport(folder);
  } catch (error) {
    // Weights are read as any others.
    expectRefusal(error, error instanceof CheckpointError ? CheckpointError : ProgramError, folder);
    return 'refused';
  }
  const session = model.session();
  const x = normal(1, [1, 3, 8]);
  try {
    for (const past of [0, 3]) {
      const { outputs } = await session.run('step', { x, past });
      for (const array of Object.values(outputs)) array.dispose();
    }
  } catch (error) {
    if (!(error instanceof MlxRunnersError)) throw error;
  } finally {
    x.dispose();
    session.dispose();
    model.dispose();
  }
  return 'read';
}

test('damaged exports run, or are refused', async () => {
  const { method, parameters } = cachedAttention();
  const source = await exported({ step: method }, parameters);
  const input = Object.fromEntries(
    Object.entries(places).map(([name, place]) => [name, readFileSync(join(source, place))]),
  );
  await fuzz({
    name: 'exports',
    cases: 400,
    inputs: [input],
    mutationsOf: (file) =>
      file.endsWith('.json')
        ? [...byteMutations, ...jsonMutations, ...jsonMutations, ...jsonMutations]
        : [...byteMutations, ...jsonMutations.map(inSafetensorsHeader)],
    read: run,
  });
});
