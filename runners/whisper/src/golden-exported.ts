/** The network of a golden once more, exported and run without its code. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { mx, type MxArray } from '@mlx-runners/mlx-core';
import { exportModel, loadExport, type Session } from '@mlx-runners/program';
import { whisperExport } from './export.js';
import type { Whisper } from './model.js';

/** Runs `check` with a session of the exported model, which decodes `batch` sequences. */
export async function withExported<T>(
  model: Whisper,
  batch: number,
  check: (session: Session) => Promise<T>,
): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), 'whisper-golden-'));
  try {
    const description = whisperExport(model, { batch });
    const { dtype } = model.encoder.conv1.weight;
    await exportModel(join(folder, 'model'), { model: { id: 'golden' }, dtype, ...description });
    using exported = loadExport(join(folder, 'model'));
    using session = exported.session();
    return await check(session);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Features [B, F, bands] → states [B, S, d]; `decodeExported` then decodes against them. */
export async function encodeExported(session: Session, features: MxArray): Promise<MxArray> {
  const { states } = (await session.run('encode', { features })).outputs;
  await session.run('cross_kv', { states });
  return states;
}

/** Logits [B, P, vocabulary] at the given positions of ids [B, T], which come after `past` others. */
export async function decodeExported(
  session: Session,
  ids: MxArray,
  past: number,
  wanted: readonly number[],
): Promise<MxArray> {
  using positions = mx.array(Int32Array.from(wanted));
  return (await session.run('decode', { ids, positions, past })).outputs.logits;
}
