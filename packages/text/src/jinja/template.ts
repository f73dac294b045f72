/** A template: parsed once, rendered often. */

import { dict, namespace, render } from './interpreter.js';
import type { Node } from './nodes.js';
import { GENERATION, parse } from './parser.js';
import { strftime } from './strftime.js';
import {
  isNumber,
  numberOf,
  TemplateError,
  text,
  toValue,
  type Callable,
  type Value,
} from './values.js';

/** `raise_exception('…')`: the template refuses what it was given. */
export class RaisedError extends Error {}

/** As many items as Python's sandbox allows. */
const LONGEST_RANGE = 100_000;

const range: Callable = (args) => {
  const bounds = args.map((value) => {
    if (isNumber(value)) return numberOf(value);
    throw new TemplateError('range() takes integers');
  });
  const [start, stop, step] = bounds.length > 1 ? bounds : [0, bounds[0], 1];
  if (step === 0) throw new TemplateError('range() arg 3 must not be zero');
  const count = Math.max(0, Math.ceil((stop - start) / (step ?? 1)));
  if (count > LONGEST_RANGE) throw new TemplateError(`range() of more than ${LONGEST_RANGE} items`);
  return Array.from({ length: count }, (_, i) => start + i * (step ?? 1));
};

const raiseException: Callable = ([message = '']) => {
  throw new RaisedError(text(message));
};

const caller: Callable = (_, named) => (named.get('caller') as Callable)([], new Map());

const CONSTANTS: readonly (readonly [string, Value])[] = [
  ['true', true],
  ['True', true],
  ['false', false],
  ['False', false],
  ['none', null],
  ['None', null],
  ['range', range],
  ['dict', dict],
  ['namespace', namespace],
  ['raise_exception', raiseException],
  [GENERATION, caller],
];

export class Template {
  private readonly nodes: readonly Node[];

  /** @throws SyntaxFault for what is not a template */
  constructor(source: string) {
    this.nodes = parse(source);
  }

  /**
   * @param variables JSON-like data
   * @param date what `strftime_now` tells
   * @throws TemplateError where Python would raise an error, RaisedError where the template does
   */
  render(variables: Readonly<Record<string, unknown>>, date: Date): string {
    const now: Callable = ([format = '']) => strftime(date, text(format));
    const all = new Map<string, Value>([...CONSTANTS, ['strftime_now', now]]);
    for (const [name, value] of Object.entries(variables)) {
      if (value !== undefined) all.set(name, toValue(value));
    }
    return render(this.nodes, all);
  }
}
