/** Arrays from JavaScript values, and from nothing but numbers where that needs more than an op. */
import { MxArray } from './array.js';
import { checkedDtype, shown, typedError } from './call.js';
import { dtypeOf, nearestDtype, type Dtype, type TypedArray } from './dtype.js';
import { DtypeError, ShapeError } from './errors.js';
import { native } from './native.js';
import { arange as arangeOp, astype } from './ops.generated.js';
import { adopt, tidy, tracking } from './scope.js';

export type NestedNumbers = number | boolean | readonly NestedNumbers[];

function isTyped(data: unknown): data is TypedArray {
  return ArrayBuffer.isView(data) && !(data instanceof DataView);
}

function nestedShape(data: NestedNumbers): number[] {
  if (!Array.isArray(data)) return [];
  const list = data as readonly NestedNumbers[];
  return [list.length, ...(list.length > 0 ? nestedShape(list[0]) : [])];
}

function flatten(data: NestedNumbers, shape: readonly number[], out: number[]): void {
  if (Array.isArray(data) && data.length === shape[0]) {
    const rest = shape.slice(1);
    for (const element of data as readonly NestedNumbers[]) flatten(element, rest, out);
    return;
  }
  const isNumber = typeof data === 'number' || typeof data === 'boolean';
  if (isNumber && shape.length === 0) {
    out.push(Number(data));
  } else if (isNumber || Array.isArray(data)) {
    throw new ShapeError('array() takes nested lists that are all of the same lengths.');
  } else {
    throw new DtypeError(
      `array() takes a typed array or nested lists of numbers, not ${shown(data)}.`,
    );
  }
}

/**
 * An array from bytes as they lie in memory, little-endian, row-major.
 *
 * @throws ShapeError when the shape doesn't need exactly these bytes
 */
export function fromBytes(bytes: Uint8Array, shape: readonly number[], dtype: Dtype): MxArray {
  const number = checkedDtype('fromBytes()', dtype);
  if (!(bytes instanceof Uint8Array)) {
    throw new DtypeError(`fromBytes() takes a Uint8Array, not ${shown(bytes)}.`);
  }
  if (!Array.isArray(shape)) {
    throw new ShapeError(`A shape has to be a list of sizes, not ${shown(shape)}.`);
  }
  // Read before the addon looks at the bytes, which a getter among the sizes could take away.
  const sizes = Array.from<number>(shape);
  try {
    return adopt(new MxArray(native().fromBytes(bytes, number, sizes, tracking())));
  } catch (error) {
    throw typedError(error, `array of ${dtype}[${sizes.join(', ')}]`);
  }
}

/**
 * An array from a typed array (copied; its type gives the dtype) or from nested lists of numbers
 * (float32 unless a dtype is given): `mx.array([1, 2], null, 'int32')`.
 *
 * @param shape defaults to the nesting of lists, or one axis
 * @throws ShapeError when the number of elements doesn't fit the shape
 */
export function array(
  data: TypedArray | NestedNumbers,
  shape?: readonly number[] | null,
  dtype?: Dtype | null,
): MxArray {
  if (typeof shape === 'string') {
    throw new ShapeError(
      `array(): the shape has to be a list of sizes, not ${shown(shape)}. ` +
        `The dtype comes after it: mx.array(data, null, '${nearestDtype(shape) ?? 'int32'}').`,
    );
  }
  if (dtype !== undefined && dtype !== null) checkedDtype('array()', dtype);
  if (isTyped(data)) return fromTyped(data, shape ?? [data.length], dtype ?? dtypeOf(data));
  const nested = nestedShape(data);
  const elements: number[] = [];
  flatten(data, nested, elements);
  return fromTyped(Float64Array.from(elements), shape ?? nested, dtype ?? 'float32');
}

function fromTyped(data: TypedArray, shape: readonly number[], dtype: Dtype): MxArray {
  // No GPU knows float64, so that it is left before MLX sees it.
  const elements = data instanceof Float64Array ? narrowed(data, dtype) : data;
  const stored = dtypeOf(elements);
  const bytes = new Uint8Array(elements.buffer, elements.byteOffset, elements.byteLength);
  if (dtype === stored) return fromBytes(bytes, shape, stored);
  return tidy(() => astype(fromBytes(bytes, shape, stored), dtype));
}

/** The numbers in the typed array that is nearest to a dtype; fractions are cut off. */
function narrowed(data: Float64Array, dtype: Dtype): TypedArray {
  switch (dtype) {
    case 'float64':
      return data;
    case 'uint8':
      return Uint8Array.from(data);
    case 'uint16':
      return Uint16Array.from(data);
    case 'uint32':
      return Uint32Array.from(data);
    case 'int8':
      return Int8Array.from(data);
    case 'int16':
      return Int16Array.from(data);
    case 'int32':
      return Int32Array.from(data);
    case 'int64':
      return BigInt64Array.from(Array.from(data, wholeNumber));
    case 'uint64':
      return BigUint64Array.from(Array.from(data, wholeNumber));
    default:
      // Also for bool_, since tiny numbers, which float32 rounds to 0, are true as well.
      return dtype === 'bool_' ? Float32Array.from(data, Math.sign) : Float32Array.from(data);
  }
}

function wholeNumber(value: number): bigint {
  return BigInt(Number.isFinite(value) ? Math.trunc(value) : 0);
}

/**
 * start, start + step, … below stop; one number alone is `stop`, and `start` is 0 then. Defaults:
 * step = 1, dtype = 'float32'.
 */
export function arange(start: number, stop?: number, step?: number, dtype?: Dtype): MxArray {
  return stop === undefined ? arangeOp(0, start) : arangeOp(start, stop, step, dtype);
}
