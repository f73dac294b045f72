/** What most passes do: drop instructions whose results are values that there are already. */
import { renamed, withValuesReplaced, type Graph, type Instruction } from '../graph.js';

/**
 * Walks through the instructions in order; each is seen with the replacements so far.
 *
 * @param known for each result of an instruction the value that it equals, or nothing to keep it
 */
export function withKnownValues(
  graph: Graph,
  known: (instruction: Instruction) => readonly number[] | undefined,
): Graph {
  const replaced = new Map<number, number>();
  const to = (value: number): number => replaced.get(value) ?? value;
  const kept = graph.instructions.filter((instruction) => {
    const args = instruction.args.map((arg) => renamed(arg, to));
    const values = known({ ...instruction, args });
    if (!values) return true;
    instruction.results.forEach((result, i) => replaced.set(result, values[i]));
    return false;
  });
  if (replaced.size === 0) return graph;
  return withValuesReplaced({ ...graph, instructions: kept }, to);
}

/** The instruction that computes a value, by value. */
export function producers(graph: Graph): Map<number, Instruction> {
  return new Map(
    graph.instructions.flatMap((instruction) =>
      instruction.results.map((value) => [value, instruction] as const),
    ),
  );
}
