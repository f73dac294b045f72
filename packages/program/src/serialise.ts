/** From graphs to what is written as `programs/<method>.json`. */
import { printable } from '@mlx-runners/mlx-core/errors';
import { formatVersion, type ArgumentFile, type ProgramFile, type TraceFile } from './format.js';
import type { Argument, Graph } from './graph.js';
import { assignSlots } from './slots.js';

/** @param graphs the method's traces, the most special first */
export function serialise(method: string, graphs: readonly Graph[]): ProgramFile {
  const sources = new Map<string, number>();
  const sourceNumber = (given: string): number => {
    // Messages show it, and it goes where a file's name goes.
    const source = printable(given, 500);
    if (!sources.has(source)) sources.set(source, sources.size);
    return sources.get(source)!;
  };
  const traces = graphs.map((graph) => serialiseTrace(graph, sourceNumber));
  return { formatVersion, method, sources: [...sources.keys()], traces };
}

type TypedSlot = TraceFile['instructions'][number]['results'][number];

function serialiseTrace(graph: Graph, sourceNumber: (source: string) => number): TraceFile {
  const { slots, count } = assignSlots(graph);
  const slotOf = (value: number): number => slots.get(value)!;
  const typed = (value: number): TypedSlot => {
    const { dtype, shape } = graph.types.get(value)!;
    return { slot: slotOf(value), dtype, shape: [...shape] };
  };
  return {
    dimensions: { ...graph.dimensions },
    limits: [...graph.limits],
    slots: count,
    inputs: graph.inputs.map(({ name, value }) => ({ name, ...typed(value) })),
    states: graph.states.map(({ name, value, next }) => ({
      name,
      slot: slotOf(value),
      next: slotOf(next),
    })),
    constants: graph.constants.map(({ name, value }) => ({ name, slot: slotOf(value) })),
    outputs: graph.outputs.map(({ name, value }) => ({ name, ...typed(value) })),
    instructions: graph.instructions.map(({ op, args, results, source }) => ({
      op,
      args: args.map((arg) => serialiseArgument(arg, slotOf)),
      results: results.map(typed),
      source: sourceNumber(source),
    })),
  };
}

function serialiseArgument(arg: Argument, slotOf: (value: number) => number): ArgumentFile {
  if (typeof arg === 'number') {
    if (Object.is(arg, -0)) return { number: '-0' };
    return Number.isFinite(arg) ? arg : { number: String(arg) as 'NaN' };
  }
  if (typeof arg !== 'object' || arg === null) return arg;
  if ('array' in arg) return { slot: slotOf(arg.array) };
  if ('arrays' in arg) return { slots: arg.arrays.map(slotOf) };
  return 'list' in arg ? { list: [...arg.list] } : arg;
}

/** One instruction a line, so that differences between exports are readable. */
export function programText(program: ProgramFile): string {
  const { traces, ...head } = program;
  const json = (value: unknown): string => JSON.stringify(value);
  const fields = (object: object): string[] =>
    Object.entries(object).map(([key, value]) => `${json(key)}: ${json(value)}`);
  const texts = traces.map(({ instructions, ...trace }) => {
    const lines = instructions.map((each) => `    ${json(each)}`).join(',\n');
    return `{\n  ${fields(trace).join(',\n  ')},\n  "instructions": [\n${lines}\n  ]\n}`;
  });
  return `{\n${fields(head).join(',\n')},\n"traces": [\n${texts.join(',\n')}\n]\n}\n`;
}
