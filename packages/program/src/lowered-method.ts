/** What callers of a method need to know, from its program. */
import { isDeepStrictEqual } from 'node:util';
import { ProgramError } from '@mlx-runners/mlx-core';
import type { ProgramFile } from './format.js';
import type { Dimension } from './graph.js';
import { signatureOf } from './signature.js';

/** Inputs, outputs and dimensions in the order in which the interpreter has them. */
export interface LoweredMethod {
  number: number;
  name: string;
  inputs: readonly string[];
  outputs: readonly string[];
  dimensions: readonly DimensionOfCall[];
}

/** A dimension of a method. */
export interface DimensionOfCall extends Dimension {
  name: string;
  /** Whether inputs' shapes say it, in which traces. */
  inShapes: 'all' | 'some' | 'none';
}

/** @throws ProgramError when its traces don't have the same inputs, outputs and dimensions */
export function loweredMethod(program: ProgramFile, number: number): LoweredMethod {
  const { method: name, traces } = program;
  const names = traces.map(({ inputs, outputs, dimensions }) => ({
    inputs: inputs.map((each) => each.name),
    outputs: outputs.map((each) => each.name),
    dimensions: Object.keys(dimensions),
  }));
  const [{ inputs, outputs, dimensions }] = names;
  if (names.some((each) => !isDeepStrictEqual(each, names[0]))) {
    throw new ProgramError(`${name}: its traces have different inputs, outputs or dimensions.`);
  }
  const ranges = signatureOf(program).dimensions;
  const shapes = traces.map((trace) => new Set(trace.inputs.flatMap(({ shape }) => shape)));
  const ofCall = dimensions.map((dimension) => {
    const count = shapes.filter((sizes) => sizes.has(dimension)).length;
    const inShapes = count === traces.length ? 'all' : count > 0 ? 'some' : 'none';
    return { name: dimension, ...ranges[dimension], inShapes } as const;
  });
  return { number, name, inputs, outputs, dimensions: ofCall };
}
