import { mx, type MxArray } from '@mlx-runners/mlx-core';
import type { Module } from './module.js';

/** Weights for a module that is only to be run, the same each time: as large as keeps activations the size of what goes in. */
export function randomWeights(module: Module): Map<string, MxArray> {
  return new Map(
    [...module.parameters()].map(([name, { shape }], i) => {
      const inputs = shape.slice(1).reduce((product, size) => product * size, 1);
      return [name, mx.randomNormal(mx.randomKey(i), shape).multiply(inputs ** -0.5)];
    }),
  );
}
