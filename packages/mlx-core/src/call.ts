/**
 * Calling ops. Arguments are written as 16-byte values (tag, size, number: native/core/value.h)
 * into a block of memory shared with the addon, so that a call crosses into C++ once, with three
 * numbers, whatever its arguments.
 */
import { MxArray } from './array.js';
import { dtypeNames, dtypeNumber, nearestDtype } from './dtype.js';
import {
  AbortedError,
  DisposedError,
  DtypeError,
  MemoryError,
  MlxRunnersError,
  NativeError,
  printable,
  ProgramError,
  ShapeError,
  UsageError,
} from './errors.js';
import { native, type OpParam, type OpRow } from './native.js';
import { recorder } from './recording.js';
import { adopt, tracking } from './scope.js';

// As in native/core/value.h and native/ops/op.h.
export const Tag = {
  none: 0,
  array: 1,
  int: 2,
  float: 3,
  bool: 4,
  dtype: 5,
  string: 6,
  ints: 7,
  arrays: 8,
};
export const Kind = {
  array: 0,
  arrays: 1,
  int: 2,
  float: 3,
  bool: 4,
  ints: 5,
  axes: 6,
  dtype: 7,
  string: 8,
};

/** What an op accepts where MLX takes an array operand: numbers take the other operands' dtype. */
export type Operand = MxArray | number | boolean;

interface Exchange {
  tags: Uint32Array;
  numbers: Float64Array;
  listsAt: number;
  lists: number;
  resultsAt: number;
  used: number;
}

interface Table {
  exchange: Exchange;
  rows: Map<string, { number: number; row: OpRow }>;
}

let opened: Table | undefined;

function table(): Table {
  if (opened) return opened;
  const addon = native();
  const { layout } = addon;
  const buffer = addon.attach(new ArrayBuffer(layout.total * 8));
  const rows = new Map(addon.ops().map((row, number) => [row.name, { number, row }]));
  const exchange = {
    tags: new Uint32Array(buffer),
    numbers: new Float64Array(buffer),
    listsAt: layout.listsAt,
    lists: layout.lists,
    resultsAt: layout.resultsAt,
    used: 0,
  };
  return (opened = { exchange, rows });
}

/** The rows of the op table, for the scripts that generate declarations and the reference. */
export function opRows(): OpRow[] {
  return [...table().rows.values()].map(({ row }) => row);
}

const strings = new Map<string, number>();

/** The number of a text in calls to the addon. @internal */
export function interned(text: string): number {
  let number = strings.get(text);
  if (number === undefined) {
    number = native().intern(text);
    strings.set(text, number);
  }
  return number;
}

const kindNames = [
  'an MxArray',
  'a list of MxArray',
  'an integer',
  'a number',
  'true or false',
  'a list of integers',
  'an axis or a list of axes',
  'a dtype',
  'a string',
];

/** A value in an error message. @internal */
export function shown(value: unknown): string {
  if (value instanceof MxArray) return value.summary();
  if (Array.isArray(value)) {
    return value.length > 8 ? `[${value.length} elements]` : `[${value.map(shown).join(', ')}]`;
  }
  if (typeof value === 'string') return `'${printable(value, 60)}'`;
  if (typeof value === 'bigint') return `${value}n`;
  if (typeof value === 'function') return 'a function';
  if (typeof value === 'object' && value !== null) return value.constructor?.name ?? 'object';
  return String(value);
}

/**
 * The number of a dtype in calls to the addon.
 *
 * @throws DtypeError for what is none
 * @internal
 */
export function checkedDtype(use: string, value: unknown): number {
  const number = dtypeNumber(value);
  if (number !== undefined) return number;
  throw new DtypeError(`${use}: dtype has to be a dtype, not ${shown(value)}.${dtypeHint(value)}`);
}

function dtypeHint(value: unknown): string {
  const nearest = typeof value === 'string' ? nearestDtype(value) : undefined;
  const question = nearest ? ` Did you mean '${nearest}'?` : '';
  return `${question} There are ${dtypeNames.join(', ')}.`;
}

function wrong(row: OpRow, at: number, value: unknown): DtypeError {
  const { kind, name, operand } = row.params[at];
  const numbers = operand ? ' or a number' : '';
  return new DtypeError(
    `${row.name}: ${name} has to be ${kindNames[kind]}${numbers}, not ${shown(value)}.` +
      hint(row, at, value),
  );
}

/** What helps with the mistakes that are made most. */
function hint({ name, params }: OpRow, at: number, value: unknown): string {
  const { kind } = params[at];
  if (kind === Kind.dtype) return dtypeHint(value);
  const isList = Array.isArray(value) && !value.some((element) => element instanceof MxArray);
  if (kind === Kind.array && (isList || ArrayBuffer.isView(value))) {
    return " Make it one with mx.array(…), or for integers from a list mx.array(…, null, 'int32').";
  }
  // A word too early in the list: `precision` in the place of `bias`.
  const takesWords = (param: OpParam): boolean =>
    param.kind === Kind.string || param.kind === Kind.dtype;
  if (typeof value === 'string' && params.slice(at + 1).some(takesWords)) {
    const names = params.map((param) => param.name).join(', ');
    return ` The order is ${name}(${names}); null stands for an optional one.`;
  }
  return '';
}

function idOf(row: OpRow, param: OpParam, array: MxArray): number {
  if (array.disposed) throw new DisposedError(`${row.name}: ${param.name} was disposed.`);
  return array.idFor(row.name);
}

function put(exchange: Exchange, at: number, tag: number, number: number, size = 0): void {
  exchange.tags[4 * at] = tag;
  exchange.tags[4 * at + 1] = size;
  exchange.numbers[2 * at + 1] = number;
}

function putList(exchange: Exchange, at: number, tag: number, list: ArrayLike<number>): void {
  const { length } = list;
  if (exchange.used + length > exchange.lists) {
    throw new ShapeError(`A call takes at most ${exchange.lists} list elements.`);
  }
  for (let i = 0; i < length; i++) exchange.numbers[exchange.listsAt + exchange.used + i] = list[i];
  put(exchange, at, tag, exchange.used, length);
  exchange.used += length;
}

function isNumbers(value: unknown): value is number[] {
  return Array.isArray(value) && value.every((element) => typeof element === 'number');
}

/** Writes one argument; false when it is of the wrong type. */
function write(exchange: Exchange, at: number, row: OpRow, value: unknown): boolean {
  const param = row.params[at];
  if (value === undefined || value === null) {
    put(exchange, at, Tag.none, 0);
    return param.optional;
  }
  if (value instanceof MxArray) {
    if (param.kind !== Kind.array) return false;
    put(exchange, at, Tag.array, idOf(row, param, value));
    return true;
  }
  if (typeof value === 'number') {
    const { kind } = param;
    const isNumber = kind === Kind.int || kind === Kind.float || kind === Kind.axes;
    if (!isNumber && !param.operand) return false;
    put(exchange, at, Number.isInteger(value) ? Tag.int : Tag.float, value);
    return true;
  }
  if (typeof value === 'boolean') {
    put(exchange, at, Tag.bool, Number(value));
    return param.kind === Kind.bool || param.operand;
  }
  if (typeof value === 'string') {
    if (param.kind === Kind.string) {
      put(exchange, at, Tag.string, interned(value));
      return true;
    }
    const number = param.kind === Kind.dtype ? dtypeNumber(value) : undefined;
    if (number === undefined) return false;
    put(exchange, at, Tag.dtype, number);
    return true;
  }
  if (param.kind === Kind.ints || param.kind === Kind.axes) {
    if (!isNumbers(value)) return false;
    putList(exchange, at, Tag.ints, value);
    return true;
  }
  if (param.kind === Kind.arrays && Array.isArray(value)) {
    if (!value.every((element) => element instanceof MxArray)) return false;
    putList(
      exchange,
      at,
      Tag.arrays,
      value.map((element: MxArray) => idOf(row, param, element)),
    );
    return true;
  }
  return false;
}

function coded(error: unknown): { code: string; message: string } | undefined {
  if (!(error instanceof Error) || !('code' in error)) return undefined;
  return { code: String(error.code), message: error.message };
}

/**
 * The typed error for what the addon threw; `context` says what was being done, unless the message does.
 * @internal
 */
export function typedError(error: unknown, context?: string): unknown {
  if (error instanceof MlxRunnersError) return error;
  const found = coded(error);
  if (!found) return error;
  // MLX names the op in brackets; `context` has it already.
  const reason = found.message.replace(/^\[[^\]]*\] */, '');
  const message = context === undefined ? reason : `${context}: ${reason}`;
  const cause = { cause: error };
  switch (found.code) {
    case 'SHAPE':
      return new ShapeError(message, cause);
    case 'DTYPE':
      return new DtypeError(message, cause);
    case 'DISPOSED':
      return new DisposedError(message, cause);
    case 'MEMORY':
      return new MemoryError(message, cause);
    case 'PROGRAM':
      return new ProgramError(message, cause);
    case 'USAGE':
      return new UsageError(message, cause);
    case 'ABORTED':
      return new AbortedError(undefined, cause);
    default:
      return new NativeError(message, cause);
  }
}

function callContext(row: OpRow, args: readonly unknown[]): string {
  const given = row.params.slice(0, args.length);
  return `${row.name}(${given.map((param, i) => `${param.name}: ${shown(args[i])}`).join(', ')})`;
}

/**
 * Lists as they are now. Getters of their elements run here, not while arguments lie in the exchange
 * buffer, where an op that a getter calls would put its own.
 */
function withPlainLists(args: readonly unknown[]): readonly unknown[] {
  return args.some(Array.isArray)
    ? args.map((value) => (Array.isArray(value) ? Array.from<unknown>(value) : value))
    : args;
}

function invoke(number: number, row: OpRow, given: readonly unknown[]): number {
  const { exchange } = table();
  const args = withPlainLists(given);
  exchange.used = 0;
  const { params } = row;
  if (args.length > params.length) {
    throw new DtypeError(`${row.name} takes ${params.length} arguments, not ${args.length}.`);
  }
  for (let i = 0; i < params.length; i++) {
    if (!write(exchange, i, row, args[i])) throw wrong(row, i, args[i]);
  }
  try {
    return native().invoke(number, params.length, tracking());
  } catch (error) {
    throw typedError(error, callContext(row, args));
  }
}

/** An op by name, bound to its row of the table when it is first called. */
// eslint-disable-next-line @typescript-eslint/no-unnecessary-type-parameters -- only the caller knows the type
export function bind<F extends (...args: never[]) => MxArray | MxArray[]>(name: string): F {
  let bound: { number: number; row: OpRow } | undefined;
  const call = (...args: unknown[]): MxArray | MxArray[] => {
    bound ??= table().rows.get(name);
    if (!bound)
      throw new NativeError(`The native library has no op ${name}: it is an older build.`);
    const count = invoke(bound.number, bound.row, args);
    const { numbers, resultsAt } = table().exchange;
    if (!bound.row.many) {
      const result = adopt(new MxArray(numbers[resultsAt]));
      recorder()?.called(bound.row, args, [result]);
      return result;
    }
    const ids = Array.from(numbers.subarray(resultsAt, resultsAt + count));
    const results = ids.map((id) => adopt(new MxArray(id)));
    recorder()?.called(bound.row, args, results);
    return results;
  };
  return call as unknown as F;
}

/** Shape and dtype number of an array, from the addon. @internal */
export function describe(id: number): { dtype: number; shape: number[] } {
  const { numbers, resultsAt } = table().exchange;
  let axes: number;
  try {
    axes = native().describe(id);
  } catch (error) {
    throw typedError(error, 'an array');
  }
  return {
    dtype: numbers[resultsAt],
    shape: Array.from(numbers.subarray(resultsAt + 2, resultsAt + 2 + axes)),
  };
}
