import { withValuesReplaced, type Graph } from '../graph.js';

/** Constants of one name become one value. */
export function mergeConstants(graph: Graph): Graph {
  const first = new Map<string, number>();
  const merged = new Map<number, number>();
  for (const { name, value } of graph.constants) {
    const kept = first.get(name);
    if (kept === undefined) first.set(name, value);
    else merged.set(value, kept);
  }
  if (merged.size === 0) return graph;
  const replaced = withValuesReplaced(graph, (value) => merged.get(value) ?? value);
  return {
    ...replaced,
    constants: graph.constants.filter(({ value }) => !merged.has(value)),
  };
}
