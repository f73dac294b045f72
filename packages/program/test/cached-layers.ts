/** Programs with two layers of attention over the caches that their calls are given. */
import { mx, type MxArray } from '@mlx-runners/mlx-core';
import type { ExportedModel, Session } from '@mlx-runners/program';
import { onTestFinished } from 'vitest';
import { loaded, normal } from './models.js';

export const layers = [
  { kvHeads: 2, headSize: 32 },
  { kvHeads: 1, headSize: 32, valueSize: 64, window: 5 },
];
export const capacity = 40;
export const scale = 0.2;

/** Layer 0 sees everything, layer 1 a window of its own keys, which are the first head's, for two users. */
function attend(
  { q, k, v }: Record<string, MxArray>,
  attention: (q: MxArray, k: MxArray, v: MxArray, layer: number, window: number) => MxArray,
): Record<string, MxArray> {
  const [batch, , length] = q.shape;
  const wide = mx.concatenate(
    [v.slice([0, 0, 0, 0], [batch, 1, length, 32]), k.slice([0, 1, 0, 0], [batch, 2, length, 32])],
    3,
  );
  const first = k.slice([0, 0, 0, 0], [batch, 1, length, 32]);
  return {
    all: attention(q, k, v, 0, 0),
    near: attention(q, first, wide, 1, 5),
    nearer: attention(q.multiply(0.5), first, wide, 1, 3),
  };
}

export async function sequenceSession(batch: number): Promise<Session> {
  const shape = (heads: number): (number | string)[] => [batch, heads, 'T', 32];
  const model = await loaded({
    forward: {
      dimensions: { T: { min: 1, max: capacity }, past: { min: 0, max: capacity } },
      inputs: {
        q: { dtype: 'float32', shape: shape(4) },
        k: { dtype: 'float32', shape: shape(2) },
        v: { dtype: 'float32', shape: shape(2) },
      },
      run: ({ q, k, v }, { past }) =>
        attend({ q, k, v }, (...[qs, ks, vs, layer, window]) =>
          mx.updateAndAttend(qs, ks, vs, past, layer, scale, window, 3),
        ),
    },
  });
  return sessionUntilEnd(model);
}

/** A method whose batch are tokens [B, heads, 1, 32] at `positions`. */
export async function cellSession(): Promise<Session> {
  const model = await loaded({
    step: {
      dimensions: { B: { min: 1, max: capacity } },
      inputs: {
        q: { dtype: 'float32', shape: ['B', 4, 1, 32] },
        k: { dtype: 'float32', shape: ['B', 2, 1, 32] },
        v: { dtype: 'float32', shape: ['B', 2, 1, 32] },
        positions: { dtype: 'int32', shape: ['B'] },
      },
      run: ({ q, k, v, positions }) =>
        attend({ q, k, v }, (...[qs, ks, vs, layer, window]) =>
          mx.updateAndAttend(qs, ks, vs, positions, layer, scale, window, 3),
        ),
    },
  });
  return sessionUntilEnd(model);
}

function sessionUntilEnd(model: ExportedModel): Session {
  const session = model.session();
  onTestFinished(() => {
    session.dispose();
    model.dispose();
  });
  return session;
}

export function tokens(seed: number, batch: number, length: number): Record<string, MxArray> {
  const of = (heads: number, key: number): MxArray =>
    normal(seed * 3 + key, [batch, heads, length, 32]);
  return { q: of(4, 0), k: of(2, 1), v: of(2, 2) };
}

export function part(
  inputs: Record<string, MxArray>,
  from: number,
  to: number,
): Record<string, MxArray> {
  const cut = Object.entries(inputs).map(([name, x]) => {
    const [batch, heads, , size] = x.shape;
    return [name, x.slice([0, 0, from, 0], [batch, heads, to, size])] as const;
  });
  return Object.fromEntries(cut);
}

export function expected(inputs: Record<string, MxArray>): Record<string, MxArray> {
  return attend(inputs, (...[q, k, v, , window]) =>
    mx.attention(q, k, v, scale, 'causal', null, null, window, 3),
  );
}

export async function error(actual: MxArray, right: MxArray): Promise<number> {
  return actual.subtract(right).abs().max().item();
}
