/** Whether two traces of a method, at two sizes, differ in nothing but numbers. */
import { ProgramError } from '@mlx-runners/mlx-core/errors';
import { bytesOf } from '@mlx-runners/mlx-core/program';
import type { MxArray } from '@mlx-runners/mlx-core';
import type { Argument, Instruction } from './graph.js';
import type { Sizes } from './sizes.js';
import type { Trace } from './trace.js';

/** @throws ProgramError that says where two traces of a method part */
export function checkSameCalls(first: Trace, other: Trace): void {
  const [a, b] = [first.graph.instructions, other.graph.instructions];
  for (let i = 0; i < Math.max(a.length, b.length); i++) {
    if (i < a.length && i < b.length && sameCall(a[i], b[i])) continue;
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
}

/** @throws ProgramError when they give other values, or under other names */
export function checkSameResults(first: Trace, other: Trace): void {
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

/** Whether two calls differ in nothing but the numbers among their arguments. */
export function sameCall(a: Call, b: Call): boolean {
  return (
    a.op === b.op &&
    a.results.length === b.results.length &&
    a.args.length === b.args.length &&
    a.args.every((arg, i) => sameKind(arg, b.args[i]))
  );
}

type Call = Omit<Instruction, 'source'>;

function sameKind(a: Argument, b: Argument): boolean {
  if (typeof a !== 'object' || a === null) {
    return typeof a === 'number' ? typeof b === 'number' : a === b;
  }
  if (typeof b !== 'object' || b === null) return false;
  if ('array' in a) return 'array' in b && a.array === b.array;
  if ('list' in a) return 'list' in b && a.list.length === b.list.length;
  return 'arrays' in a && 'arrays' in b && sameNumbers(a.arrays, b.arrays);
}

/** Of any length, without making texts of them. */
export function sameNumbers(a: readonly unknown[], b: readonly unknown[]): boolean {
  return a.length === b.length && a.every((value, i) => value === b[i]);
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
