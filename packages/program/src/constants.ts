/** Constants of several methods, each content once. */
import type { MxArray } from '@mlx-runners/mlx-core';
import { bytesOf } from '@mlx-runners/mlx-core/program';
import { sha256 } from './files.js';
import type { Graph } from './graph.js';
import { mergeConstants } from './passes/merge-constants.js';
import type { Constants } from './passes/pass.js';
import type { Constant } from './trace.js';

const unnamed = 'constant.';

/**
 * Names contents. A parameter keeps the name that it has in the model, the first one when several are
 * equal; what has no name is called after its content.
 */
export class ConstantStore implements Constants {
  readonly #arrays = new Map<string, MxArray>();
  readonly #names = new Map<string, string>();
  readonly #byArray = new Map<MxArray, string>();
  readonly #largestRead: number;
  #unread = 0;

  /** @param largestRead bytes; larger arrays are the same only when they are the same array */
  constructor(largestRead = Infinity) {
    this.#largestRead = largestRead;
  }

  get(name: string): MxArray {
    return this.#arrays.get(name)!;
  }

  add(array: MxArray, name = unnamed): string {
    return this.name(name, array);
  }

  /** The stored name of an array. */
  name(given: string, array: MxArray): string {
    const seen = this.#byArray.get(array);
    if (seen !== undefined) return seen;
    const content = this.#contentOf(array);
    let name = this.#names.get(content);
    if (name === undefined) {
      const free = !given.startsWith(unnamed) && !this.#arrays.has(given);
      name = free ? given : `${unnamed}${content.slice(0, 16)}`;
      this.#names.set(content, name);
      this.#arrays.set(name, array);
    }
    this.#byArray.set(array, name);
    return name;
  }

  #contentOf(array: MxArray): string {
    if (array.nbytes > this.#largestRead) return `array-${this.#unread++}`;
    // Of dtype and shape, too: the same bytes may be several constants.
    return sha256(`${array.dtype}[${array.shape.join()}] ${sha256(bytesOf(array))}`);
  }

  /** The graph with stored names, and each content as one value. */
  adopt(graph: Graph, constants: ReadonlyMap<string, Constant>): Graph {
    const named = graph.constants.map(({ name, value }) => ({
      name: this.name(name, constants.get(name)!.array),
      value,
    }));
    return mergeConstants({ ...graph, constants: named });
  }
}
