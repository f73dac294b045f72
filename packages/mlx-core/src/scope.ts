/**
 * Who frees arrays. Inside `tidy` everything made is freed when the function returns, except what
 * it returns or `keep`s; outside, the garbage collector does it, told how many bytes hang on each
 * array. The collector runs only when it likes, so loops that make much should use a scope.
 */
import { MxArray } from './array.js';
import { UsageError } from './errors.js';
import { native } from './native.js';

const scopes: Set<MxArray>[] = [];

/** Whether a new array has to be reported to the garbage collector. @internal */
export function tracking(): boolean {
  return scopes.length === 0;
}

let unreachable: number[] = [];

const registry = new FinalizationRegistry<number>((id) => {
  if (unreachable.push(id) === 1) queueMicrotask(dropUnreachable);
});

function dropUnreachable(): void {
  const ids = Float64Array.from(unreachable);
  unreachable = [];
  native().drop(ids);
}

/** Gives a new array to the innermost scope, or to the garbage collector. @internal */
export function adopt(array: MxArray): MxArray {
  const scope = scopes.at(-1);
  if (scope) scope.add(array);
  else registry.register(array, array.idFor('tidy()'), array);
  return array;
}

/** Takes a disposed array from whoever would free it later. @internal */
export function disown(array: MxArray): void {
  if (scopes.length > 0) for (const scope of scopes) scope.delete(array);
  registry.unregister(array);
}

/** Every MxArray in a value: itself, or inside arrays, maps, sets and plain objects. */
function arraysIn(value: unknown, found: Set<MxArray>, seen = new Set<unknown>()): Set<MxArray> {
  if (value instanceof MxArray) return found.add(value);
  if (typeof value !== 'object' || value === null || seen.has(value)) return found;
  if (ArrayBuffer.isView(value)) return found;
  seen.add(value);
  if (value instanceof Map || value instanceof Set) {
    for (const element of value.values()) arraysIn(element, found, seen);
  } else {
    for (const element of Object.values(value)) arraysIn(element, found, seen);
  }
  return found;
}

/** Gives an array that was in a scope to the garbage collector. */
function track(array: MxArray): void {
  const id = array.idFor('keep()');
  native().track(id);
  registry.register(array, id, array);
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return (
    typeof value === 'object' &&
    value !== null &&
    'then' in value &&
    typeof value.then === 'function'
  );
}

function release(array: MxArray): void {
  const outer = scopes.at(-1);
  if (outer) {
    outer.add(array);
  } else {
    track(array);
  }
}

/**
 * Runs a synchronous function and frees every array made in it, except those in its result (also
 * inside objects, arrays and maps) and those given to `keep`.
 *
 * @throws UsageError when the function returns a promise: what it awaits would run after the scope
 */
export function tidy<T>(fn: () => T): T {
  const scope = new Set<MxArray>();
  scopes.push(scope);
  let result: T;
  let survivors: Set<MxArray> | undefined;
  try {
    result = fn();
    if (isThenable(result)) {
      // What it does with freed arrays would otherwise be reported as a failure of its own.
      result.then(undefined, () => undefined);
      throw new UsageError('tidy() takes a synchronous function, and this one returned a promise.');
    }
    survivors = arraysIn(result, new Set());
  } finally {
    scopes.pop();
    const ids: number[] = [];
    for (const array of scope) {
      if (survivors?.has(array)) release(array);
      else ids.push(array.forget());
    }
    if (ids.length > 0) native().drop(Float64Array.from(ids));
  }
  return result;
}

/** Whether a scope that is open now would free an array. @internal */
export function isScoped(array: MxArray): boolean {
  return scopes.some((scope) => scope.has(array));
}

/** Takes an array out of the scope that would free it; it then lives until disposed or unreachable. */
export function keep(array: MxArray): MxArray {
  for (const scope of scopes) {
    if (scope.delete(array)) track(array);
  }
  return array;
}
