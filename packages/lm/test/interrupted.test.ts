/** Calls that fail or are aborted leave no trace: what follows is what it would be without them. */
import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CheckpointError } from '@mlx-runners/mlx-core';
import {
  DecoderModel,
  decoderProgram,
  LanguageModel,
  Sampler,
  type DecoderProgramOptions,
} from '@mlx-runners/lm';
import { compileModel, exportModel } from '@mlx-runners/program';
import { Random, writeTinyLanguageModel } from '@mlx-runners/test-fixtures';
import { afterAll, describe, expect, it } from 'vitest';
import { goldenDecoder } from './golden-decoder.js';

const scratch = mkdtempSync(join(tmpdir(), 'lm-interrupted-'));
afterAll(() => rmSync(scratch, { recursive: true }));

// Its windows are of 4 tokens.
const { decoder } = goldenDecoder('tiny_gemma3');
afterAll(() => decoder.dispose());

const places: [string, DecoderProgramOptions][] = [
  ['off-graph', {}],
  ['in-graph', { cache: 'in-graph' }],
];

async function compiled(options: DecoderProgramOptions): Promise<DecoderModel> {
  const program = decoderProgram(decoder, { prefillChunk: 8, maxContextLength: 90, ...options });
  const methods = { forward: program.methods.forward };
  const description = { model: { id: 'tiny' }, dtype: 'float32' as const, ...program, methods };
  return new DecoderModel(await compileModel(description), 'tiny');
}

describe.each(places)('%s', (_, options) => {
  it('gives what a new sequence gives after aborts and errors', async () => {
    using model = await compiled(options);
    using tried = model.sequence();
    const random = new Random(5);
    const none = Object.fromEntries(Array.from({ length: 64 }, (__, id) => [id, -Infinity]));
    const draw = { stopIds: new Set<number>(), maxTokens: 4 };
    let base: number[] = [];
    for (let round = 0; round < 60; round++) {
      const kept = base.slice(0, random.below(base.length + 1));
      const added = Array.from({ length: 1 + random.below(30) }, () => random.below(60));
      const ids = [...kept, ...added].slice(0, 80);
      base = ids;
      const fate = round % 3;
      const controller = new AbortController();
      const sampler = new Sampler(
        fate === 1 ? { temperature: 0, logitBias: none } : { temperature: 0 },
      );
      const rest = ids.slice(tried.reuse(ids));
      const call = tried.continue(rest, { ...draw, sampler, signal: controller.signal });
      if (fate === 2) controller.abort();
      if (fate !== 0) {
        await expect(call).rejects.toThrow();
        continue;
      }
      using fresh = model.sequence();
      const expected = await fresh.continue(ids, {
        ...draw,
        sampler: new Sampler({ temperature: 0 }),
      });
      expect((await call).map(({ id }) => id)).toEqual(expected.map(({ id }) => id));
    }
  });
});

describe('an export that publishes what is not true', async () => {
  const folder = join(scratch, 'export');
  const source = writeTinyLanguageModel(join(scratch, 'model'), { golden: 'tiny_gemma3' });
  const files = Object.fromEntries(
    ['tokenizer.json', 'tokenizer_config.json', 'config.json'].map((name) => [
      name,
      join(source, name),
    ]),
  );
  const program = decoderProgram(decoder, {
    cache: 'in-graph',
    prefillChunk: 8,
    maxContextLength: 90,
  });
  await exportModel(folder, { model: { id: 'tiny' }, dtype: 'float32', files, ...program });
  const manifest = readFileSync(join(folder, 'manifest.json'), 'utf8');

  it('is loaded as it is', async () => {
    await using model = await LanguageModel.load(folder);
    expect(await model.generate([1, 2, 3], { maxTokens: 2 }).result()).toBeDefined();
  });

  it.each([
    ['cacheRows', Array.from({ length: 6 }, () => 90)],
    ['cacheRows', [11]],
    ['windows', [4]],
    ['kvHeads', [2, 1, 1, 1, 1, 1]],
    ['headSizes', [2 ** 30, 32, 32, 32, 32, 32]],
    ['contextLength', 1000],
    ['prefillChunk', 90],
    ['vocabularySize', 1],
    ['cache', 'off-graph'],
  ])('is refused: %s %j', async (name, value) => {
    const edited = JSON.parse(manifest) as {
      constants: Record<string, unknown>;
      sha256: string | undefined;
    };
    edited.constants[name] = value;
    edited.sha256 = undefined;
    edited.sha256 = createHash('sha256').update(JSON.stringify(edited)).digest('hex');
    writeFileSync(join(folder, 'manifest.json'), JSON.stringify(edited));
    await expect(LanguageModel.load(folder)).rejects.toThrow(CheckpointError);
    writeFileSync(join(folder, 'manifest.json'), manifest);
  });
});

it('lets a batch have its program though its model is disposed', async () => {
  const model = await LanguageModel.load(writeTinyLanguageModel(join(scratch, 'batched')));
  await using batch = model.batch({ cells: 200 });
  await model.dispose();
  const { tokens } = await batch
    .generate([1, 2, 3], { maxTokens: 3, ignoreStopIds: true })
    .result();
  expect(tokens).toHaveLength(3);
});
