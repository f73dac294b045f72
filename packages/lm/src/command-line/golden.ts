/**
 * How `golden` recomputes a fixture of a language model: `ids` [1, T] or [B, T] and what the reference made of them,
 * `logits`, and `greedy16`, which continues `ids`. Eagerly, and as programs with each kind of cache; at once and in
 * pieces.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { mx, type MxArray } from '@mlx-runners/mlx-core';
import { exportModel, loadExport } from '@mlx-runners/program';
import {
  compareFloats,
  compareIntegers,
  type GoldenChecker,
  type GoldenResult,
  type TensorGolden,
} from '@mlx-runners/runner';
import type { Decoder } from '../decoder.js';
import { DecoderModel } from '../decoder-model.js';
import { decoderProgram, type DecoderProgramOptions } from '../decoder-program.js';
import { familyOf } from '../families.js';
import { GrowingCache } from '../kv-cache.js';
import { Sampler } from '../sampler.js';

const programs: readonly (readonly [string, DecoderProgramOptions])[] = [
  ['off-graph', { cache: 'off-graph' }],
  ['in-graph', { cache: 'in-graph' }],
  ['in-graph, MLX', { cache: 'in-graph', useCustomSdpa: false, useCustomKvCache: false }],
];

/** How many tokens are given at a time. */
const pieces = [Infinity, 7, 1];
const prefillChunk = 64;

/** Gives the logits [T, vocabulary] of a sequence [T], which is given in pieces. */
type Compute = (ids: readonly number[], piece: number) => Promise<MxArray>;

export const languageModelGolden: GoldenChecker = {
  matches: (fixture) =>
    fixture.kind === 'tensors' &&
    fixture.metadata.config !== undefined &&
    isKnown(fixture.metadata.config) &&
    fixture.tensors.has('ids') &&
    fixture.tensors.has('logits'),

  async check(fixture) {
    if (fixture.kind !== 'tensors') return [];
    using decoder = decoderOf(fixture);
    const results = await compare(fixture, 'eager', (ids, piece) => eager(decoder, ids, piece));
    for (const [name, options] of programs) {
      const folder = await mkdtemp(join(tmpdir(), 'lm-golden-'));
      try {
        using model = await exported(decoder, folder, options);
        results.push(
          ...(await compare(fixture, name, (ids, piece) => inProgram(model, ids, piece))),
          ...(await compareGreedy(fixture, name, model)),
        );
      } finally {
        await rm(folder, { recursive: true });
      }
    }
    return results;
  },
};

function isKnown(config: unknown): boolean {
  try {
    familyOf(config);
    return true;
  } catch {
    return false;
  }
}

function decoderOf({ metadata, tensors, path }: TensorGolden): Decoder {
  const family = familyOf(metadata.config, path);
  const decoder = family.build(metadata.config, path);
  const weights = [...tensors].filter(([name]) => name.startsWith('w.'));
  decoder.load(family.sanitize(new Map(weights.map(([name, array]) => [name.slice(2), array]))));
  return decoder;
}

async function exported(
  decoder: Decoder,
  folder: string,
  options: DecoderProgramOptions,
): Promise<DecoderModel> {
  const program = decoderProgram(decoder, { ...options, prefillChunk });
  const path = join(folder, 'export');
  await exportModel(path, { model: { id: 'golden' }, dtype: 'float32', ...program });
  return new DecoderModel(loadExport(path), path);
}

/** Every pair `ids…`, `logits…` of a golden; the sequences of a batch one after another. */
async function compare(
  { tensors }: TensorGolden,
  how: string,
  compute: Compute,
): Promise<GoldenResult[]> {
  const results: GoldenResult[] = [];
  for (const [name, ids] of tensors) {
    const expected = tensors.get(name.replace(/^ids/, 'logits'));
    if (!name.startsWith('ids') || !expected) continue;
    const rows = await rowsOf(ids);
    for (const piece of pieces) {
      const parts: MxArray[] = [];
      for (const row of rows) parts.push(await compute(row, piece));
      using actual = mx.tidy(() => mx.stack(parts).reshape(expected.shape));
      const given = piece === Infinity ? 'at once' : `in pieces of ${piece}`;
      const what = `${name.replace(/^ids/, 'logits')}, ${how}, ${given}`;
      results.push(await compareFloats(what, actual, expected));
      for (const part of parts) part.dispose();
    }
  }
  return results;
}

async function rowsOf(ids: MxArray): Promise<number[][]> {
  const length = ids.shape.at(-1)!;
  const all = Array.from(await ids.data(), Number);
  return Array.from({ length: all.length / length }, (_, i) =>
    all.slice(i * length, (i + 1) * length),
  );
}

async function eager(decoder: Decoder, ids: readonly number[], piece: number): Promise<MxArray> {
  using cache = new GrowingCache(decoder.layouts);
  const logits = mx.tidy(() => {
    const parts = piecesOf(ids, piece).map((part) => {
      const given = mx.array(Int32Array.from(part), [1, part.length]);
      return decoder.forward({ ids: given, cache }).logits;
    });
    return mx.concatenate(parts, 1).squeeze(0);
  });
  await mx.eval(logits);
  return logits;
}

async function inProgram(
  model: DecoderModel,
  ids: readonly number[],
  piece: number,
): Promise<MxArray> {
  using sequence = model.sequence();
  const parts: MxArray[] = [];
  for (const part of piecesOf(ids, Math.min(piece, prefillChunk))) {
    parts.push(await sequence.logits(part, [...part.keys()]));
  }
  const logits = mx.tidy(() => mx.concatenate(parts));
  await mx.eval(logits);
  for (const part of parts) part.dispose();
  return logits;
}

function piecesOf(ids: readonly number[], length: number): number[][] {
  const size = Math.min(length, ids.length);
  return Array.from({ length: Math.ceil(ids.length / size) }, (_, i) =>
    ids.slice(i * size, (i + 1) * size),
  );
}

async function compareGreedy(
  { tensors }: TensorGolden,
  how: string,
  model: DecoderModel,
): Promise<GoldenResult[]> {
  const expected = tensors.get('greedy16');
  if (!expected) return [];
  using sequence = model.sequence();
  const [prompt] = await rowsOf(tensors.get('ids')!);
  const tokens = await sequence.continue(prompt, {
    sampler: new Sampler({ temperature: 0 }),
    stopIds: new Set(),
    maxTokens: expected.size,
  });
  using actual = mx.array(Int32Array.from(tokens, ({ id }) => id));
  return [await compareIntegers(`greedy16, ${how}`, actual, expected)];
}
