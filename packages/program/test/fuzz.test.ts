import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CheckpointError, MlxRunnersError, mx, ProgramError } from '@mlx-runners/mlx-core';
import {
  loadExport,
  type ExportedModel,
  type Manifest,
  type ProgramFile,
} from '@mlx-runners/program';
import {
  byteMutations,
  expectRefusal,
  fuzz,
  inSafetensorsHeader,
  jsonMutations,
  type Files,
  type Reading,
} from '@mlx-runners/test-fixtures';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { describe, rehashed } from './edits.js';
import { callInputs } from './fuzz-calls.js';
import { fuzzModels, type FuzzModel } from './fuzz-models.js';
import type { ArrayTypes } from './inference.js';
import { exported } from './models.js';
import { programMutations } from './program-mutations.js';

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

interface Source {
  files: Files;
  constants: ArrayTypes;
  states: ArrayTypes;
}

async function exportedFiles({ method, parameters }: FuzzModel): Promise<Source> {
  const source = await exported({ step: method }, parameters);
  const files = Object.fromEntries(
    Object.entries(places).map(([file, place]) => [file, readFileSync(join(source, place))]),
  );
  const constants = mx.tidy(() => {
    const { tensors } = mx.loadSafetensors(join(source, 'weights.safetensors'));
    return Object.fromEntries(
      [...tensors].map(([name, { dtype, shape }]) => [name, { dtype, shape }] as const),
    );
  });
  return { files, constants, states: method.states ?? {} };
}

/** Loads a folder of just these files, whose hashes fit. @returns nothing where it is refused as it should be */
function load(files: Files): ExportedModel | undefined {
  const others = {
    'programs/step.json': files['step.json'],
    'weights.safetensors': files['weights.safetensors'],
  };
  const written = { ...others, 'manifest.json': rehashed(String(files['manifest.json']), others) };
  mkdirSync(join(folder, 'programs'), { recursive: true });
  for (const [place, content] of Object.entries(written)) {
    writeFileSync(join(folder, place), content);
  }
  try {
    return loadExport(folder);
  } catch (error) {
    // Weights are read as any others.
    expectRefusal(error, error instanceof CheckpointError ? CheckpointError : ProgramError, folder);
    return undefined;
  }
}

/** Calls what is left of the method a few times. @returns whether all calls came to an end */
async function runs(model: ExportedModel): Promise<boolean> {
  const session = model.session();
  const calls = callInputs(model.manifest.methods.step);
  try {
    // The first two are on their way at once.
    const [first, second, ...others] = calls;
    const results = await Promise.allSettled([
      session.run('step', first),
      session.run('step', second),
    ]);
    for (const inputs of others) {
      results.push(...(await Promise.allSettled([session.run('step', inputs, { profile: true })])));
    }
    for (const result of results) {
      if (result.status === 'rejected') {
        if (!(result.reason instanceof MlxRunnersError)) throw result.reason;
      } else {
        for (const array of Object.values(result.value.outputs)) array.dispose();
      }
    }
    return results.every(({ status }) => status === 'fulfilled');
  } finally {
    for (const array of calls.flatMap((inputs) => Object.values(inputs))) {
      if (typeof array !== 'number') array.dispose();
    }
    session.dispose();
    model.dispose();
  }
}

test('damaged exports run, or are refused', async () => {
  const { files } = await exportedFiles(fuzzModels().attention);
  await fuzz({
    name: 'exports',
    cases: 150,
    inputs: [files],
    mutationsOf: (file) =>
      file.endsWith('.json')
        ? [...byteMutations, ...jsonMutations, ...jsonMutations, ...jsonMutations]
        : [...byteMutations, ...jsonMutations.map(inSafetensorsHeader)],
    async read(files): Promise<Reading> {
      const model = load(files);
      if (model) await runs(model);
      return model ? 'read' : 'refused';
    },
  });
});

/** The same files with a manifest that says of the method what its program says. */
function fitted(files: Files): Files {
  const manifest = JSON.parse(String(files['manifest.json'])) as Manifest;
  describe(manifest, JSON.parse(String(files['step.json'])) as ProgramFile);
  return { ...files, 'manifest.json': Buffer.from(JSON.stringify(manifest)) };
}

test('changed programs run, or are refused; a good part runs to the end', async () => {
  let [cases, ended] = [0, 0];
  for (const [name, model] of Object.entries(fuzzModels())) {
    const { files, constants, states } = await exportedFiles(model);
    const mutations = programMutations(constants, states);
    await fuzz({
      name: `programs of ${name}`,
      cases: 65,
      inputs: [{ 'step.json': files['step.json'] }],
      mutationsOf: () => mutations,
      async read(changed): Promise<Reading> {
        const loaded = load(fitted({ ...files, ...changed }));
        const toTheEnd = loaded !== undefined && (await runs(loaded));
        cases += 1;
        ended += Number(toTheEnd);
        return toTheEnd ? 'read' : 'refused';
      },
    });
  }
  if (process.env.FUZZ_CASES) console.log(`${ended} of ${cases} changed programs ran to the end`);
  expect(ended / cases).toBeGreaterThan(0.3);
});
