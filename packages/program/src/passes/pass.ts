import type { MxArray } from '@mlx-runners/mlx-core';
import type { Graph } from '../graph.js';

/** Where a pass finds the contents of constants, and leaves new ones. */
export interface Constants {
  /** The array of a constant. */
  get(name: string): MxArray;
  /** Keeps an array and returns its name: that of an equal one, else the given one if it is free. */
  add(array: MxArray, name?: string): string;
}

/** A graph that means the same. The given one stays as it is. */
export type Pass = (graph: Graph, constants: Constants) => Graph;
