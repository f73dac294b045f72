/** Inputs for calls of whatever method a damaged manifest describes. */
import { mx, type MxArray } from '@mlx-runners/mlx-core';
import type { Manifest, Sizes } from '@mlx-runners/program';
import { evaluateSize } from '../src/sizes.js';
import { normal } from './models.js';

type Inputs = Record<string, MxArray | number>;

/** Largest array that a call is given. */
const most = 1 << 16;

/** Four calls: of the smallest sizes, and of larger ones where these fit in. */
export function callInputs(method: Manifest['methods'][string] | undefined): Inputs[] {
  return [0, 1, 3, 2].map((steps) => inputsOf(method, steps));
}

function inputsOf(method: Manifest['methods'][string] | undefined, steps: number): Inputs {
  const sizes: Record<string, number> = {};
  for (const [name, { min, max, multipleOf = 1 }] of Object.entries(method?.dimensions ?? {})) {
    const smallest = Math.ceil(min / multipleOf) * multipleOf;
    sizes[name] = Math.min(
      smallest + steps * multipleOf,
      Math.floor(max / multipleOf) * multipleOf,
    );
  }
  const bound = new Set<unknown>(Object.values(method?.inputs ?? {}).flatMap(({ shape }) => shape));
  const given = Object.entries(sizes).filter(([name]) => !bound.has(name));
  const inputs: Inputs = Object.fromEntries(given);
  for (const [name, { dtype, shape }] of Object.entries(method?.inputs ?? {})) {
    const actual = shape.map((size) => sizeAt(size, sizes));
    const fits = actual.reduce((product, size) => product * size, 1) <= most;
    const array = normal(1, fits ? actual : [1]);
    inputs[name] = dtype.startsWith('float') ? array.astype(dtype) : array.abs().astype(dtype);
    mx.evalSync(inputs[name]);
    array.dispose();
  }
  return inputs;
}

function sizeAt(size: Parameters<typeof evaluateSize>[0], sizes: Sizes): number {
  try {
    const value = evaluateSize(size, sizes);
    return Number.isSafeInteger(value) && value >= 0 ? Math.min(value, most) : 1;
  } catch {
    return 1; // a divisor of 0, or a dimension that there is not
  }
}
