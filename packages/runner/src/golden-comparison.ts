/** Comparison of one computed tensor with its reference; what `golden` prints a line of. */

/** In fp32, of the reference tensor's range (max − min). */
export const DEFAULT_TOLERANCE = 1e-4;

export interface GoldenResult {
  readonly tensor: string;
  readonly kind: 'float' | 'integer';
  /**
   * float: the largest |actual − expected|, relative to the reference tensor's range.
   * integer: how many elements differ. Infinity where the two can't be compared at all.
   */
  readonly maxError: number;
  /** The largest `maxError` that passes. */
  readonly tolerance: number;
  readonly ok: boolean;
  /** float: the largest |actual − expected| itself, for `Margins.numericError`. */
  readonly absoluteError?: number;
  readonly note?: string;
}

type Values = ArrayLike<number | bigint> & Iterable<number | bigint>;

/** An MxArray, or values in row-major order with their shape. */
export interface ComparableTensor {
  readonly shape: readonly number[];
  readonly data: Values | (() => Promise<Values>);
}

/**
 * Compares floating-point tensors. Shapes must be equal; NaN never passes, on either side; an
 * infinity passes only against the same infinity.
 *
 * @param tolerance largest error relative to the range (max − min of the finite reference values).
 *   A reference without a range, being constant, takes its largest magnitude instead, or 1 for zeros.
 */
export async function compareFloats(
  tensor: string,
  actual: ComparableTensor,
  expected: ComparableTensor,
  tolerance = DEFAULT_TOLERANCE,
): Promise<GoldenResult> {
  const failed = (note: string): GoldenResult => ({
    tensor,
    kind: 'float',
    maxError: Infinity,
    tolerance,
    ok: false,
    absoluteError: Infinity,
    note,
  });
  const mismatch = shapeMismatch(actual, expected);
  if (mismatch) return failed(mismatch);
  const ours = await valuesOf(actual);
  const reference = await valuesOf(expected);

  let absoluteError = 0;
  for (let i = 0; i < reference.length; i++) {
    const [got, wanted] = [Number(ours[i]), Number(reference[i])];
    if (got === wanted) continue;
    const error = Math.abs(got - wanted);
    if (!Number.isFinite(error)) {
      return failed(`${got} at ${place(i, expected.shape)}, expected ${wanted}`);
    }
    absoluteError = Math.max(absoluteError, error);
  }
  const maxError = absoluteError / rangeOf(reference);
  return { tensor, kind: 'float', maxError, tolerance, ok: maxError <= tolerance, absoluteError };
}

export interface Margins {
  /** Best minus second logit at each step: the shape of the ids compared. */
  readonly margins: ComparableTensor;
  /** Largest absolute error of our logits, such as `absoluteError` of the prompt's comparison. */
  readonly numericError: number;
}

/**
 * Compares integers, which must be equal.
 *
 * @param greedy where the integers are ids picked greedily along the last axis: a row may leave the
 *   reference at a step whose margin is below the numeric error, since either id is right there;
 *   what follows in that row then follows from another prefix and says nothing. The note tells.
 */
export async function compareIntegers(
  tensor: string,
  actual: ComparableTensor,
  expected: ComparableTensor,
  greedy?: Margins,
): Promise<GoldenResult> {
  const result = (maxError: number, ok: boolean, note?: string): GoldenResult => ({
    tensor,
    kind: 'integer',
    maxError,
    tolerance: 0,
    ok,
    ...(note === undefined ? {} : { note }),
  });
  const mismatch = shapeMismatch(actual, expected) ?? shapeMismatch(greedy?.margins, expected);
  if (mismatch) return result(Infinity, false, mismatch);
  const ours = await valuesOf(actual);
  const reference = await valuesOf(expected);
  const differing = differences(ours, reference);
  if (differing.length === 0) return result(0, true);

  const describe = (i: number) =>
    `${ours[i]} at ${place(i, expected.shape)}, expected ${reference[i]}`;
  if (!greedy) return result(differing.length, false, describe(differing[0]));

  const margins = await valuesOf(greedy.margins);
  const firsts = firstOfEachRow(differing, expected.shape.at(-1) ?? 1);
  const wrong = firsts.find((i) => !(Number(margins[i]) < greedy.numericError));
  const decisive = wrong ?? firsts[0];
  const verdict = wrong === undefined ? 'below' : 'not below';
  return result(
    differing.length,
    wrong === undefined,
    `${describe(decisive)}; the margin there, ${format(margins[decisive])}, is ${verdict} ` +
      `the numeric error ${format(greedy.numericError)}`,
  );
}

function shapeMismatch(
  actual: ComparableTensor | undefined,
  expected: ComparableTensor,
): string | undefined {
  if (!actual) return undefined;
  const [got, wanted] = [actual.shape, expected.shape].map((shape) => `[${shape.join(', ')}]`);
  return got === wanted ? undefined : `shape ${got}, expected ${wanted}`;
}

async function valuesOf(tensor: ComparableTensor): Promise<Values> {
  return typeof tensor.data === 'function' ? await tensor.data() : tensor.data;
}

function rangeOf(reference: Values): number {
  let [min, max] = [Infinity, -Infinity];
  for (const element of reference) {
    const value = Number(element);
    if (!Number.isFinite(value)) continue;
    min = Math.min(min, value);
    max = Math.max(max, value);
  }
  if (max > min) return max - min;
  return Math.abs(max) > 0 && max > -Infinity ? Math.abs(max) : 1;
}

function differences(actual: Values, expected: Values): number[] {
  const indices: number[] = [];
  for (let i = 0; i < expected.length; i++) {
    // BigInt and number elements are both usual for ids: int64 on one side, int32 on the other.
    if (Number(actual[i]) !== Number(expected[i])) indices.push(i);
  }
  return indices;
}

function firstOfEachRow(indices: readonly number[], rowLength: number): number[] {
  const rows = new Map<number, number>();
  for (const i of indices) {
    const row = Math.floor(i / rowLength);
    if (!rows.has(row)) rows.set(row, i);
  }
  return [...rows.values()];
}

/** The index of a row-major element: `[0, 5]`. */
function place(flat: number, shape: readonly number[]): string {
  const index: number[] = [];
  for (const size of shape.toReversed()) {
    index.unshift(flat % size);
    flat = Math.floor(flat / size);
  }
  return `[${index.join(', ')}]`;
}

function format(value: number | bigint): string {
  return Number(value).toPrecision(2);
}
