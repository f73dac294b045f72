/** Exports of a tiny checkpoint of llama2.c, loaded again. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { mx } from '@mlx-runners/mlx-core';
import { GrowingCache, loadDecoder, readDecoderCheckpoint } from '@mlx-runners/lm';
import { decoderSubject } from '@mlx-runners/lm/command-line';
import { exportModel } from '@mlx-runners/program';
import { load } from '@mlx-runners/stories110m';
import { writeTinyLlama2c } from '@mlx-runners/test-fixtures';
import { afterAll, expect, it } from 'vitest';

const folder = mkdtempSync(join(tmpdir(), 'stories110m-export-'));
afterAll(() => rmSync(folder, { recursive: true }));
const checkpoint = writeTinyLlama2c(join(folder, 'model'));

const prompt = 'Once upon a time,';
const length = 10;

/** The likeliest tokens, computed by the network without a program. */
function eagerTokens(): number[] {
  using decoder = loadDecoder(readDecoderCheckpoint(checkpoint));
  using cache = new GrowingCache(decoder.layouts);
  const ids = [1, ...promptIds];
  let next = ids;
  while (ids.length < length) {
    const { logits } = decoder.forward({ ids: mx.array([next], null, 'int32'), cache });
    const last = logits.slice([0, next.length - 1, 0], [1, next.length, logits.shape[2]]);
    next = [last.argmax().itemSync()];
    ids.push(...next);
  }
  return ids.slice(1 + promptIds.length);
}

/** ` Once`, ` upon`, ` a`, ` time`, `,` */
const promptIds = [262, 266, 267, 271, 284];

async function tokensOf(path: string): Promise<number[]> {
  await using model = await load(path);
  const ids = model.encode(prompt);
  expect(ids).toEqual([1, ...promptIds]);
  const { tokens } = await model
    .generate(prompt, { temperature: 0, maxTokens: length - ids.length, ignoreStopIds: true })
    .result();
  return tokens.map(({ id }) => id);
}

async function exported(
  name: string,
  options: Parameters<typeof decoderSubject>[2],
  quantised: object = {},
): Promise<string> {
  const subject = await decoderSubject(checkpoint, { model: { id: 'tiny' } }, options);
  try {
    const path = join(folder, name);
    await exportModel(path, { ...subject.description, ...quantised });
    return path;
  } finally {
    await subject.dispose();
  }
}

it('gives the tokens of the network in float32', async () => {
  const expected = eagerTokens();
  expect(expected).toHaveLength(4);
  expect(await tokensOf(checkpoint)).toEqual(expected);
  expect(await tokensOf(await exported('off-graph', { dtype: 'float32' }))).toEqual(expected);
  const inGraph = await exported('in-graph', { dtype: 'float32', cache: 'in-graph' });
  expect(await tokensOf(inGraph)).toEqual(expected);
});

it('runs in 4 bits, groups of 32', async () => {
  const qlinear = { type: '4w', groupSize: 32 } as const;
  const path = await exported('packed', { dtype: 'float32' }, { qlinear });
  const inGraph = await exported(
    'packed-in-graph',
    { dtype: 'float32', cache: 'in-graph' },
    { qlinear },
  );
  const tokens = await tokensOf(path);
  expect(tokens).toHaveLength(4);
  expect(await tokensOf(inGraph)).toEqual(tokens);
});
