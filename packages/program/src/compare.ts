/** Whether two traces of a method, at two sizes, differ in nothing but numbers. */
import { ProgramError } from '@mlx-runners/mlx-core/errors';
import { bytesOf } from '@mlx-runners/mlx-core/program';
import type { MxArray } from '@mlx-runners/mlx-core';
import type { Instruction } from './graph.js';
import type { Sizes } from './sizes.js';
import type { Trace } from './trace.js';

/** @throws ProgramError that says where two traces of a method part */
export function checkSameStructure(first: Trace, other: Trace): void {
  const [a, b] = [first.graph.instructions, other.graph.instructions];
  for (let i = 0; i < Math.max(a.length, b.length); i++) {
    const same =
      i < a.length &&
      i < b.length &&
      a[i].op === b[i].op &&
      a[i].results.length === b[i].results.length &&
      shapeOfCall(a[i]) === shapeOfCall(b[i]);
    if (same) continue;
    const said = (instruction: Instruction | undefined): string =>
      instruction === undefined
        ? 'nothing more is computed'
        : `comes ${place(instruction)}, which gives ${instruction.results.length}`;
    throw new ProgramError(
      `The method computes other things at other sizes: after ${i} ops, at ${at(first.sizes)} ` +
        `${said(a[i])}; at ${at(other.sizes)} ${said(b[i])}. ` +
        'Declare dimensions so that a branch is always or never taken, or export two traces.',
    );
  }
  const results = ({ graph }: Trace): string =>
    [...graph.outputs, ...graph.states.map((state) => ({ ...state, value: state.next }))]
      .map(({ name, value }) => `${name} is value ${value}`)
      .join(', ');
  if (results(first) !== results(other)) {
    throw new ProgramError(
      `The method returns other things at other sizes: at ${at(first.sizes)} ${results(first)}; ` +
        `at ${at(other.sizes)} ${results(other)}.`,
    );
  }
}

/** What an instruction reads, and of which kinds its arguments are: all but the numbers in them. */
function shapeOfCall({ args }: Instruction): string {
  const kinds = args.map((arg) => {
    if (typeof arg === 'number') return 'number';
    if (typeof arg === 'object' && arg !== null && 'list' in arg) return arg.list.length;
    return arg;
  });
  return JSON.stringify(kinds);
}

/** Whether two arrays hold the same; computes them, blocking. */
export function sameContent(a: MxArray, b: MxArray): boolean {
  if (a === b) return true;
  if (a.dtype !== b.dtype || a.shape.join() !== b.shape.join()) return false;
  return Buffer.compare(bytesOf(a), bytesOf(b)) === 0;
}

/** An instruction in messages. */
export function place({ op, source }: Instruction): string {
  return `${op} at ${source}`;
}

/** Sizes in messages: `T = 3, past = 0`. */
export function at(sizes: Sizes): string {
  const dimensions = Object.entries(sizes).map(([name, value]) => `${name} = ${value}`);
  return dimensions.join(', ');
}
