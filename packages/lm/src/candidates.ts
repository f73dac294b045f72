/** Tokens that may come next, and picking the best of them without sorting them all. */

import { NativeError, ShapeError } from '@mlx-runners/mlx-core/errors';

/** Token ids and their logits, one beside the other. The likelier come first where that is said. */
export interface Candidates {
  ids: Int32Array;
  logits: Float64Array;
}

let identity = new Int32Array(0);
let scratch = new Float64Array(0);

/**
 * All tokens of a row of logits, by id. NaN becomes −Infinity; where a logit is Infinity, only such tokens are left.
 * The numbers may be written over, until the next call: sampling never waits halfway.
 *
 * @throws ShapeError for an empty row, NativeError when all are −Infinity or NaN
 */
export function allTokens(row: Float32Array): Candidates {
  if (row.length === 0) throw new ShapeError('A row of logits is empty.');
  if (identity.length < row.length) {
    identity = Int32Array.from({ length: row.length }, (_, id) => id);
    scratch = new Float64Array(row.length);
  }
  const logits = scratch.subarray(0, row.length);
  let max = -Infinity;
  for (let i = 0; i < row.length; i++) {
    const logit = row[i];
    logits[i] = logit >= -Infinity ? logit : -Infinity;
    if (logit > max) max = logit;
  }
  if (max === -Infinity) {
    throw new NativeError(
      `The model gave no usable logits: all ${row.length} are -Infinity or NaN.`,
    );
  }
  if (max === Infinity) {
    for (let i = 0; i < logits.length; i++) logits[i] = logits[i] === Infinity ? 0 : -Infinity;
  }
  return { ids: identity.subarray(0, row.length), logits };
}

/** A number for each candidate; the greater, the earlier it is taken. */
type Keys = Float64Array;

/**
 * The places of the `count` greatest keys, greatest first; of equal ones those with the smaller id.
 * Time grows with the keys, not with their logarithm: a heap holds the best so far, and few get in.
 */
export function best(keys: Keys, ids: Int32Array, count: number): Int32Array {
  const size = Math.min(count, keys.length);
  if (size === 0) return new Int32Array(0);
  const isWorse = (a: number, b: number): boolean =>
    keys[a] < keys[b] || (keys[a] === keys[b] && ids[a] > ids[b]);
  // The worst of the best is on top.
  const heap = new Int32Array(size);
  const sink = (value: number, end: number): void => {
    let i = 0;
    for (let child = 1; child < end; child = 2 * i + 1) {
      if (child + 1 < end && isWorse(heap[child + 1], heap[child])) child++;
      if (!isWorse(heap[child], value)) break;
      heap[i] = heap[child];
      i = child;
    }
    heap[i] = value;
  };
  for (let filled = 0; filled < size; filled++) {
    let i = filled;
    while (i > 0 && isWorse(filled, heap[(i - 1) >> 1])) {
      heap[i] = heap[(i - 1) >> 1];
      i = (i - 1) >> 1;
    }
    heap[i] = filled;
  }
  let bound = keys[heap[0]];
  for (let i = size; i < keys.length; i++) {
    if (keys[i] < bound || !isWorse(heap[0], i)) continue;
    sink(i, size);
    bound = keys[heap[0]];
  }
  // From the worst to the best, each goes behind those that are left.
  for (let end = size - 1; end > 0; end--) {
    const worst = heap[0];
    sink(heap[end], end);
    heap[end] = worst;
  }
  return heap;
}

/**
 * The places of the greatest keys whose weights first add up to `mass`, in no order that matters; at least one.
 * Of equal keys those with the smaller id are taken first. A quickselect: time grows with the keys.
 *
 * @param places those to choose from; they are put into another order
 */
export function bestUntil(
  places: Int32Array,
  { keys, ids, weights }: { keys: Keys; ids: Int32Array; weights: Float64Array },
  mass: number,
): Int32Array {
  // All before `low` are taken, and don't suffice; with all before `high` there is enough.
  let [low, high, taken] = [0, places.length, 0];
  while (high - low > 1) {
    const pivot = places[(low + high) >> 1];
    places[(low + high) >> 1] = places[high - 1];
    let [middle, better] = [low, 0];
    for (let i = low; i < high - 1; i++) {
      const place = places[i];
      const isBetter =
        keys[place] > keys[pivot] || (keys[place] === keys[pivot] && ids[place] < ids[pivot]);
      if (!isBetter) continue;
      places[i] = places[middle];
      places[middle++] = place;
      better += weights[place];
    }
    places[high - 1] = places[middle];
    places[middle] = pivot;
    if (middle > 0 && taken + better >= mass) {
      high = middle;
    } else if (taken + better + weights[pivot] >= mass) {
      high = middle + 1;
      break;
    } else {
      taken += better + weights[pivot];
      low = middle + 1;
    }
  }
  return places.subarray(0, high);
}

/** The places of weights of `bound` or more, in order. */
export function placesFrom(bound: number, weights: Float64Array): Int32Array {
  const places = new Int32Array(weights.length);
  let count = 0;
  for (let i = 0; i < weights.length; i++) if (weights[i] >= bound) places[count++] = i;
  return places.subarray(0, count);
}

export function picked({ ids, logits }: Candidates, places: Int32Array): Candidates {
  const left = { ids: new Int32Array(places.length), logits: new Float64Array(places.length) };
  for (let i = 0; i < places.length; i++) {
    left.ids[i] = ids[places[i]];
    left.logits[i] = logits[places[i]];
  }
  return left;
}

export function largest(values: Float64Array): number {
  let max = values[0];
  for (let i = 1; i < values.length; i++) if (values[i] > max) max = values[i];
  return max;
}

/** Probabilities up to one factor, and their sum. */
export function softmax(
  logits: Float64Array,
  temperature = 1,
): { weights: Float64Array; sum: number } {
  const max = largest(logits);
  const weights = new Float64Array(logits.length);
  let sum = 0;
  for (let i = 0; i < logits.length; i++) {
    weights[i] = Math.exp((logits[i] - max) / temperature);
    sum += weights[i];
  }
  return { weights, sum };
}
