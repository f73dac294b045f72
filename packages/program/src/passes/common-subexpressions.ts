import type { Instruction } from '../graph.js';
import type { Pass } from './pass.js';
import { withKnownValues } from './replacements.js';

/** What was computed already isn't computed again. Ops have no effects; random ones take keys. */
export const shareCommonSubexpressions: Pass = (graph) => {
  const seen = new Map<string, readonly number[]>();
  return withKnownValues(graph, (instruction) => {
    const key = keyOf(instruction);
    const known = seen.get(key);
    if (!known) seen.set(key, instruction.results);
    return known;
  });
};

function keyOf({ op, args, results }: Instruction): string {
  // JSON has null for what is not finite, and no −0.
  const shown = args.map((arg) => (typeof arg === 'number' ? exact(arg) : arg));
  return JSON.stringify([op, shown, results.length]);
}

function exact(value: number): unknown {
  return Number.isFinite(value) && !Object.is(value, -0) ? value : { number: printed(value) };
}

function printed(value: number): string {
  return Object.is(value, -0) ? '-0' : String(value);
}
