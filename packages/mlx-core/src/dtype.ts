/** Element types. */
import { nearestName } from './nearest-name.js';

/** In the order of native/core/dtypes.h: a dtype's position is its number in calls to the addon. */
export const dtypeNames = [
  'bool_',
  'uint8',
  'uint16',
  'uint32',
  'uint64',
  'int8',
  'int16',
  'int32',
  'int64',
  'float16',
  'float32',
  'float64',
  'bfloat16',
  'complex64',
] as const;

export type Dtype = (typeof dtypeNames)[number];

const numbers = new Map<unknown, number>(dtypeNames.map((name, index) => [name, index]));

/** What other libraries and languages call them. */
const otherNames = new Map<string, Dtype>([
  ['bool', 'bool_'],
  ['boolean', 'bool_'],
  ['byte', 'uint8'],
  ['int', 'int32'],
  ['long', 'int64'],
  ['half', 'float16'],
  ['f16', 'float16'],
  ['fp16', 'float16'],
  ['bf16', 'bfloat16'],
  ['float', 'float32'],
  ['f32', 'float32'],
  ['fp32', 'float32'],
  ['double', 'float64'],
  ['complex', 'complex64'],
]);

/** The dtype that was most likely meant by a name that is none; undefined where nothing is close. */
export function nearestDtype(name: string): string | undefined {
  return otherNames.get(name.toLowerCase()) ?? nearestName(name, dtypeNames);
}

/** The number of a dtype in calls to the addon, or undefined for a name that is none. */
export function dtypeNumber(name: unknown): number | undefined {
  return numbers.get(name);
}

export const itemSizes: Readonly<Record<Dtype, number>> = {
  bool_: 1,
  uint8: 1,
  uint16: 2,
  uint32: 4,
  uint64: 8,
  int8: 1,
  int16: 2,
  int32: 4,
  int64: 8,
  float16: 2,
  float32: 4,
  float64: 8,
  bfloat16: 2,
  complex64: 8,
};

export type TypedArray =
  | Float32Array
  | Float64Array
  | Int8Array
  | Int16Array
  | Int32Array
  | BigInt64Array
  | Uint8Array
  | Uint16Array
  | Uint32Array
  | BigUint64Array;

/**
 * The typed array that shows elements of a dtype. Halves have been widened to float32 by then
 * (Node 20 has no Float16Array); booleans are 0 and 1; complex numbers are pairs.
 */
export function viewOf(dtype: Dtype, buffer: ArrayBuffer): TypedArray {
  switch (dtype) {
    case 'bool_':
    case 'uint8':
      return new Uint8Array(buffer);
    case 'uint16':
      return new Uint16Array(buffer);
    case 'uint32':
      return new Uint32Array(buffer);
    case 'uint64':
      return new BigUint64Array(buffer);
    case 'int8':
      return new Int8Array(buffer);
    case 'int16':
      return new Int16Array(buffer);
    case 'int32':
      return new Int32Array(buffer);
    case 'int64':
      return new BigInt64Array(buffer);
    case 'float64':
      return new Float64Array(buffer);
    case 'float16':
    case 'bfloat16':
    case 'float32':
    case 'complex64':
      return new Float32Array(buffer);
  }
}

const typedArrays: Readonly<Record<string, Dtype>> = {
  Float32Array: 'float32',
  Float64Array: 'float64',
  // Where the JavaScript engine has it.
  Float16Array: 'float16',
  Int8Array: 'int8',
  Int16Array: 'int16',
  Int32Array: 'int32',
  BigInt64Array: 'int64',
  Uint8Array: 'uint8',
  Uint8ClampedArray: 'uint8',
  Uint16Array: 'uint16',
  Uint32Array: 'uint32',
  BigUint64Array: 'uint64',
};

/** The dtype whose elements a typed array (or a subclass, such as Buffer) holds. */
export function dtypeOf(data: TypedArray): Dtype {
  return typedArrays[data[Symbol.toStringTag]];
}
