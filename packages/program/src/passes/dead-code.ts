import { operands, type Graph } from '../graph.js';

/** Without instructions, constants and types that no output and no state needs. */
export function removeDeadCode(graph: Graph): Graph {
  const needed = new Set<number>([
    ...graph.outputs.map(({ value }) => value),
    ...graph.states.map(({ next }) => next),
  ]);
  const instructions = graph.instructions.toReversed().filter((instruction) => {
    if (!instruction.results.some((value) => needed.has(value))) return false;
    for (const value of operands(instruction)) needed.add(value);
    return true;
  });
  const isWhole =
    instructions.length === graph.instructions.length &&
    graph.constants.every(({ value }) => needed.has(value));
  if (isWhole) return graph;
  const given = [...graph.inputs, ...graph.states].map(({ value }) => value);
  const constants = graph.constants.filter(({ value }) => needed.has(value));
  const kept = new Set([
    ...given,
    ...constants.map(({ value }) => value),
    ...instructions.flatMap(({ results }) => results),
  ]);
  return {
    ...graph,
    constants,
    instructions: instructions.reverse(),
    types: new Map([...graph.types].filter(([value]) => kept.has(value))),
  };
}
