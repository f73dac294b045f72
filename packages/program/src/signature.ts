/** A method as callers see it: what the manifest says of its program. */
import type { Manifest, ProgramFile } from './format.js';

export type Signature = Omit<Manifest['methods'][string], 'program'>;

/** Dimensions range over all traces; types are those of the most general one. */
export function signatureOf({ traces }: ProgramFile): Signature {
  const { inputs, outputs, dimensions } = traces.at(-1)!;
  return {
    dimensions: Object.fromEntries(
      Object.keys(dimensions).map((name) => [name, rangeOf(name, traces)]),
    ),
    inputs: typesOf(inputs),
    outputs: typesOf(outputs),
  };
}

function rangeOf(name: string, traces: ProgramFile['traces']): Signature['dimensions'][string] {
  const all = traces.flatMap(({ dimensions }) =>
    Object.hasOwn(dimensions, name) ? [dimensions[name]] : [],
  );
  const range = all.reduce(({ min, max }, each) => ({
    min: Math.min(min, each.min),
    max: Math.max(max, each.max),
  }));
  const [{ multipleOf }] = all;
  const same = multipleOf !== undefined && all.every((each) => each.multipleOf === multipleOf);
  return same ? { ...range, multipleOf } : { min: range.min, max: range.max };
}

function typesOf(list: ProgramFile['traces'][number]['inputs']): Signature['inputs'] {
  return Object.fromEntries(list.map(({ name, dtype, shape }) => [name, { dtype, shape }]));
}
