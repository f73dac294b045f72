/** At least one call of every op with what it gives: op name → cases. */
import { mx, type Dtype, type MxArray } from '@mlx-runners/mlx-core';
import type { Nested } from './expectations.js';

export interface OpCase {
  args: () => readonly unknown[];
  /** One value; or one for each result of an op that gives several. */
  gives: Nested;
  dtype?: Dtype;
  tolerance?: number;
}

const array = (data: Nested, dtype?: Dtype): MxArray => mx.array(data, undefined, dtype);
const ints = (data: Nested): MxArray => array(data, 'int32');
const bools = (data: Nested): MxArray => array(data, 'bool_');
/** Pairs of real and imaginary parts. */
const complex = (pairs: readonly number[]): MxArray => array(pairs).view('complex64');

const matrix = [
  [1, 2, 3],
  [4, 5, 6],
];

function one(input: Nested, gives: Nested, dtype?: Dtype): OpCase[] {
  return [{ args: () => [array(input)], gives, dtype }];
}
function two(a: Nested, b: Nested, gives: Nested, dtype?: Dtype): OpCase[] {
  return [{ args: () => [array(a), array(b)], gives, dtype }];
}
function onInts(a: Nested, b: Nested, gives: Nested, dtype: Dtype = 'int32'): OpCase[] {
  return [{ args: () => [ints(a), ints(b)], gives, dtype }];
}
/** A matrix op: its value over everything and over axis 1 with the axis kept. */
function reduced(whole: Nested, rows: Nested, dtype?: Dtype): OpCase[] {
  return [
    { args: () => [array(matrix)], gives: whole, dtype },
    { args: () => [array(matrix), 1, true], gives: rows, dtype },
    { args: () => [array(matrix), [0, -1]], gives: whole, dtype },
  ];
}

const elementwise: Record<string, OpCase[]> = {
  abs: one([-1, 2], [1, 2]),
  negative: one([-1, 2], [1, -2]),
  sign: one([-3, 0, 2], [-1, 0, 1]),
  reciprocal: one([2, -4], [0.5, -0.25]),
  square: one([-3, 2], [9, 4]),
  sqrt: one([9, 2], [3, Math.SQRT2]),
  rsqrt: one([4, 2], [0.5, Math.SQRT1_2]),
  exp: one([0, 1, -Infinity], [1, Math.E, 0]),
  expm1: one([0, 1e-4], [0, Math.expm1(1e-4)]),
  log: one([1, 10, 0], [0, Math.LN10, -Infinity]),
  log2: one([8, 0.5], [3, -1]),
  log10: one([1000, 0.1], [3, -1]),
  log1p: one([0, 1e-4], [0, Math.log1p(1e-4)]),
  sin: one([0, 1], [0, Math.sin(1)]),
  cos: one([0, 1], [1, Math.cos(1)]),
  tan: one([0, 1], [0, Math.tan(1)]),
  arcsin: one([0, 1], [0, Math.PI / 2]),
  arccos: one([1, 0], [0, Math.PI / 2]),
  arctan: one([0, 1], [0, Math.PI / 4]),
  sinh: one([0, 1], [0, Math.sinh(1)]),
  cosh: one([0, 1], [1, Math.cosh(1)]),
  tanh: one([0, 1], [0, Math.tanh(1)]),
  arcsinh: one([0, 1], [0, Math.asinh(1)]),
  arccosh: one([1, 2], [0, Math.acosh(2)]),
  arctanh: one([0, 0.5], [0, Math.atanh(0.5)]),
  sigmoid: one([0, 1], [0.5, 1 / (1 + Math.exp(-1))]),
  erf: one([0, 0.5, -1], [0, 0.5204998778130465, -0.8427007929497149]),
  erfinv: one([0, 0.5204998778130465], [0, 0.5]),
  gelu: one([0, 1, -2], [0, 0.8413447460685429, -0.04550026389635842]),
  floor: one([-1.5, 1.5], [-2, 1]),
  ceil: one([-1.5, 1.5], [-1, 2]),
  trunc: one([-1.5, 1.5], [-1, 1]),
  round: [
    ...one([0.5, 1.5, -2.5, 2.25], [0, 2, -2, 2]),
    { args: () => [array([1.26, -1.24]), 1], gives: [1.3, -1.2] },
  ],
  logicalNot: one([0, 2], [true, false], 'bool_'),
  bitwiseInvert: [{ args: () => [ints([0, 5])], gives: [-1, -6], dtype: 'int32' }],
  isnan: one([NaN, 1, Infinity], [true, false, false], 'bool_'),
  isinf: one([NaN, 1, -Infinity], [false, false, true], 'bool_'),
  isfinite: one([NaN, 1, Infinity], [false, true, false], 'bool_'),
  isposinf: one([-Infinity, 1, Infinity], [false, false, true], 'bool_'),
  isneginf: one([-Infinity, 1, Infinity], [true, false, false], 'bool_'),
  stopGradient: one([1, 2], [1, 2]),
  real: [{ args: () => [complex([1, 2, 3, 4])], gives: [1, 3], dtype: 'float32' }],
  imag: [{ args: () => [complex([1, 2, 3, 4])], gives: [2, 4], dtype: 'float32' }],
  conjugate: [{ args: () => [complex([1, 2])], gives: [[1, -2]], dtype: 'complex64' }],
  add: [
    ...two(
      [[1], [2]],
      [10, 20],
      [
        [11, 21],
        [12, 22],
      ],
    ),
    { args: () => [1, ints([1, 2])], gives: [2, 3], dtype: 'int32' },
  ],
  subtract: two([5, 1], [2, 4], [3, -3]),
  multiply: two([5, 1], [2, -4], [10, -4]),
  divide: [...two([1, -6], [4, 3], [0.25, -2]), ...onInts([7], [2], [3.5], 'float32')],
  floorDivide: [
    ...two([7, -7], [2, 2], [3, -4]),
    // Dividing integers by zero gives 0, not the end of the process.
    ...onInts([7, -7, 5, -5, -(2 ** 31)], [2, 2, 0, -1, -1], [3, -4, 0, 5, -(2 ** 31)]),
    { args: () => [array([7, 200, 9], 'uint8'), array([2, 255, 0], 'uint8')], gives: [3, 0, 0] },
  ],
  remainder: [
    ...two([7, -7], [3, 3], [1, 2]),
    ...onInts([7, -7, 7, 5, -(2 ** 31)], [3, 3, -3, 0, -1], [1, 2, -2, 0, 0]),
    { args: () => [array([7, 200, 9], 'uint8'), array([4, 255, 0], 'uint8')], gives: [3, 200, 0] },
  ],
  power: [...two([2, 9], [10, 0.5], [1024, 3]), ...onInts([2, 3], [10, 0], [1024, 1])],
  maximum: two([1, 5], [3, 2], [3, 5]),
  minimum: two([1, 5], [3, 2], [1, 2]),
  arctan2: two([1, -1], [1, -1], [Math.PI / 4, (-3 * Math.PI) / 4]),
  logaddexp: two([0, -Infinity], [0, 3], [Math.LN2, 3]),
  equal: two([1, 2], [1, 3], [true, false], 'bool_'),
  notEqual: two([1, 2], [1, 3], [false, true], 'bool_'),
  greater: two([1, 2, 3], [1, 3, 2], [false, false, true], 'bool_'),
  greaterEqual: two([1, 2, 3], [1, 3, 2], [true, false, true], 'bool_'),
  less: two([1, 2, 3], [1, 3, 2], [false, true, false], 'bool_'),
  lessEqual: two([1, 2, 3], [1, 3, 2], [true, true, false], 'bool_'),
  logicalAnd: two([0, 1, 2], [1, 0, 3], [false, false, true], 'bool_'),
  logicalOr: two([0, 1, 0], [1, 0, 0], [true, true, false], 'bool_'),
  bitwiseAnd: onInts([12, -1], [10, 7], [8, 7]),
  bitwiseOr: onInts([12, 1], [10, 6], [14, 7]),
  bitwiseXor: onInts([12, 1], [10, 1], [6, 0]),
  leftShift: onInts([1, 3], [4, 1], [16, 6]),
  rightShift: onInts([16, -8], [4, 1], [1, -4]),
  where: [{ args: () => [bools([1, 0, 1]), array([1, 2, 3]), -1], gives: [1, -1, 3] }],
  clip: [
    { args: () => [array([-2, 0, 9]), -1, 1], gives: [-1, 0, 1] },
    { args: () => [array([-2, 0, 9]), null, 1], gives: [-2, 0, 1] },
    { args: () => [array([-2, 0, 9]), -1], gives: [-1, 0, 9] },
  ],
  nanToNum: [
    { args: () => [array([NaN, Infinity, -Infinity]), 7, 8, -8], gives: [7, 8, -8] },
    { args: () => [array([NaN, 1])], gives: [0, 1] },
  ],
  astype: [{ args: () => [array([1.7, -1.7]), 'int32'], gives: [1, -1], dtype: 'int32' }],
  view: [{ args: () => [array([1]), 'int32'], gives: [0x3f800000], dtype: 'int32' }],
};

const shapes: Record<string, OpCase[]> = {
  arange: [
    { args: () => [0, 5, 2], gives: [0, 2, 4], dtype: 'float32' },
    { args: () => [3, 0, -1, 'int32'], gives: [3, 2, 1], dtype: 'int32' },
  ],
  linspace: [
    { args: () => [0, 1, 5], gives: [0, 0.25, 0.5, 0.75, 1] },
    { args: () => [0, 1, 4, false], gives: [0, 0.25, 0.5, 0.75] },
  ],
  full: [
    { args: () => [[2, 1], 7], gives: [[7], [7]], dtype: 'float32' },
    { args: () => [[2], 7, 'int64'], gives: [7, 7], dtype: 'int64' },
    { args: () => [[1], true], gives: [true], dtype: 'bool_' },
  ],
  zeros: [{ args: () => [[1, 2], 'int8'], gives: [[0, 0]], dtype: 'int8' }],
  ones: [{ args: () => [[2]], gives: [1, 1], dtype: 'float32' }],
  zerosLike: [{ args: () => [ints([[3, 4]])], gives: [[0, 0]], dtype: 'int32' }],
  onesLike: [{ args: () => [ints([[3, 4]])], gives: [[1, 1]], dtype: 'int32' }],
  eye: [
    {
      args: () => [2],
      gives: [
        [1, 0],
        [0, 1],
      ],
    },
    {
      args: () => [2, 3, 1, 'int32'],
      gives: [
        [0, 1, 0],
        [0, 0, 1],
      ],
      dtype: 'int32',
    },
  ],
  tri: [
    {
      args: () => [2, 3],
      gives: [
        [1, 0, 0],
        [1, 1, 0],
      ],
    },
  ],
  tril: [
    {
      args: () => [array(matrix)],
      gives: [
        [1, 0, 0],
        [4, 5, 0],
      ],
    },
    {
      args: () => [array(matrix), 1],
      gives: [
        [1, 2, 0],
        [4, 5, 6],
      ],
    },
  ],
  triu: [
    {
      args: () => [array(matrix)],
      gives: [
        [1, 2, 3],
        [0, 5, 6],
      ],
    },
  ],
  copy: one([1, 2], [1, 2]),
  contiguous: [
    {
      args: () => [array(matrix).transpose()],
      gives: [
        [1, 4],
        [2, 5],
        [3, 6],
      ],
    },
  ],
  reshape: [
    {
      args: () => [array(matrix), [3, -1]],
      gives: [
        [1, 2],
        [3, 4],
        [5, 6],
      ],
    },
  ],
  unflatten: [
    {
      args: () => [array([1, 2, 3, 4]), 0, [2, -1]],
      gives: [
        [1, 2],
        [3, 4],
      ],
    },
  ],
  flatten: [
    { args: () => [array(matrix)], gives: [1, 2, 3, 4, 5, 6] },
    { args: () => [array([matrix]), 0, 1], gives: matrix },
  ],
  squeeze: [
    { args: () => [array([[[1], [2]]])], gives: [1, 2] },
    { args: () => [array([[[1], [2]]]), 0], gives: [[1], [2]] },
  ],
  expandDims: [
    { args: () => [array([1, 2]), 0], gives: [[1, 2]] },
    { args: () => [array([1, 2]), [0, 2]], gives: [[[1], [2]]] },
  ],
  transpose: [
    {
      args: () => [array(matrix)],
      gives: [
        [1, 4],
        [2, 5],
        [3, 6],
      ],
    },
    { args: () => [array([matrix]), [1, 0, 2]], gives: [[[1, 2, 3]], [[4, 5, 6]]] },
  ],
  swapaxes: [
    {
      args: () => [array([matrix]), 0, 2],
      gives: [
        [[1], [4]],
        [[2], [5]],
        [[3], [6]],
      ],
    },
  ],
  moveaxis: [
    {
      args: () => [array([matrix]), 0, 2],
      gives: [
        [[1], [2], [3]],
        [[4], [5], [6]],
      ],
    },
  ],
  flip: [
    {
      args: () => [array(matrix)],
      gives: [
        [6, 5, 4],
        [3, 2, 1],
      ],
    },
    {
      args: () => [array(matrix), 1],
      gives: [
        [3, 2, 1],
        [6, 5, 4],
      ],
    },
  ],
  roll: [
    { args: () => [array([1, 2, 3]), 1], gives: [3, 1, 2] },
    {
      args: () => [array(matrix), -1, 1],
      gives: [
        [2, 3, 1],
        [5, 6, 4],
      ],
    },
  ],
  broadcastTo: [
    {
      args: () => [array([1, 2]), [2, 2]],
      gives: [
        [1, 2],
        [1, 2],
      ],
    },
  ],
  slice: [
    {
      args: () => [array(matrix), [0, 1], [2, 3]],
      gives: [
        [2, 3],
        [5, 6],
      ],
    },
    { args: () => [array([0, 1, 2, 3, 4]), [1], [5], [2]], gives: [1, 3] },
  ],
  sliceUpdate: [
    {
      args: () => [array(matrix), array([[9]]), [1, 1], [2, 2]],
      gives: [
        [1, 2, 3],
        [4, 9, 6],
      ],
    },
  ],
  asStrided: [
    {
      args: () => [array([0, 1, 2, 3, 4]), [2, 3], [2, 1]],
      gives: [
        [0, 1, 2],
        [2, 3, 4],
      ],
    },
    { args: () => [array([0, 1, 2]), [3], [-1], 2], gives: [2, 1, 0] },
  ],
  split: [{ args: () => [array([[1, 2, 3, 4]]), 2, 1], gives: [[[1, 2]], [[3, 4]]] }],
  splitAt: [
    {
      args: () => [array([1, 2, 3, 4]), [2]],
      gives: [
        [1, 2],
        [3, 4],
      ],
    },
  ],
  concatenate: [
    { args: () => [[array([1, 2]), array([3])]], gives: [1, 2, 3] },
    { args: () => [[array([[1]]), array([[2]])], 1], gives: [[1, 2]] },
  ],
  stack: [
    {
      args: () => [[array([1, 2]), array([3, 4])]],
      gives: [
        [1, 2],
        [3, 4],
      ],
    },
    {
      args: () => [[array([1, 2]), array([3, 4])], -1],
      gives: [
        [1, 3],
        [2, 4],
      ],
    },
  ],
  tile: [
    {
      args: () => [array([1, 2]), [2, 2]],
      gives: [
        [1, 2, 1, 2],
        [1, 2, 1, 2],
      ],
    },
  ],
  repeat: [
    { args: () => [array([1, 2]), 2], gives: [1, 1, 2, 2] },
    {
      args: () => [array([[1, 2]]), 2, 0],
      gives: [
        [1, 2],
        [1, 2],
      ],
    },
  ],
  pad: [
    { args: () => [array([1, 2]), [1, 2]], gives: [0, 1, 2, 0, 0] },
    { args: () => [ints([1, 2]), [1, 0], 9], gives: [9, 1, 2], dtype: 'int32' },
    { args: () => [array([1, 2]), [2, 1], null, 'edge'], gives: [1, 1, 1, 2, 2] },
  ],
  take: [
    { args: () => [array(matrix), ints([5, 0, -1])], gives: [6, 1, 6] },
    { args: () => [array(matrix), ints([1]), 0], gives: [[4, 5, 6]] },
  ],
  takeAlongAxis: [{ args: () => [array(matrix), ints([[2], [0]]), 1], gives: [[3], [4]] }],
  putAlongAxis: [
    {
      args: () => [array(matrix), ints([[2], [0]]), array([[7], [8]]), 1],
      gives: [
        [1, 2, 7],
        [8, 5, 6],
      ],
    },
  ],
};

const variance = 35 / 12;
const reductions: Record<string, OpCase[]> = {
  sum: reduced(21, [[6], [15]], 'float32'),
  mean: reduced(3.5, [[2], [5]], 'float32'),
  prod: reduced(720, [[6], [120]]),
  max: reduced(6, [[3], [6]]),
  min: reduced(1, [[1], [4]]),
  all: [...reduced(true, [[true], [true]], 'bool_'), ...one([1, 0], false)],
  any: [...reduced(true, [[true], [true]], 'bool_'), ...one([0, 0], false)],
  logsumexp: [...one([0, 0], Math.LN2), ...one([1000, 1000], 1000 + Math.LN2)],
  median: reduced(3.5, [[2], [5]]),
  variance: [
    ...reduced(variance, [[2 / 3], [2 / 3]]),
    { args: () => [array(matrix), null, false, 1], gives: 3.5 },
  ],
  std: [
    ...reduced(Math.sqrt(variance), [[Math.sqrt(2 / 3)], [Math.sqrt(2 / 3)]]),
    { args: () => [array(matrix), 1, false, 1], gives: [1, 1] },
  ],
  argmax: [
    {
      args: () => [
        array([
          [1, 9],
          [8, 2],
        ]),
      ],
      gives: 1,
      dtype: 'uint32',
    },
    {
      args: () => [
        array([
          [1, 9],
          [8, 2],
        ]),
        1,
        true,
      ],
      gives: [[1], [0]],
    },
  ],
  argmin: [
    {
      args: () => [
        array([
          [1, 9],
          [8, 2],
        ]),
      ],
      gives: 0,
      dtype: 'uint32',
    },
    {
      args: () => [
        array([
          [1, 9],
          [8, 2],
        ]),
        0,
      ],
      gives: [0, 1],
    },
  ],
  softmax: [
    { args: () => [array([[0, Math.log(3)]]), -1], gives: [[0.25, 0.75]] },
    { args: () => [array([[0], [Math.log(3)]])], gives: [[0.25], [0.75]] },
    {
      args: () => [
        array([
          [0, 5],
          [Math.log(3), 5],
        ]),
        0,
        true,
      ],
      gives: [
        [0.25, 0.5],
        [0.75, 0.5],
      ],
    },
  ],
  sort: [
    { args: () => [array([[3, 1, 2]])], gives: [[1, 2, 3]] },
    { args: () => [array([[3], [1]]), 0], gives: [[1], [3]] },
  ],
  argsort: [{ args: () => [array([3, 1, 2])], gives: [1, 2, 0], dtype: 'uint32' }],
  partition: [{ args: () => [array([3, 1, 2]), 1], gives: [1, 2, 3] }],
  argpartition: [{ args: () => [array([3, 1, 2]), 1], gives: [1, 2, 0], dtype: 'uint32' }],
  topk: [{ args: () => [array([3, 1, 2]), 1], gives: [3] }],
  cumsum: [
    {
      args: () => [array(matrix)],
      gives: [
        [1, 3, 6],
        [4, 9, 15],
      ],
    },
    { args: () => [array([1, 2, 3]), 0, true], gives: [6, 5, 3] },
    { args: () => [array([1, 2, 3]), 0, false, false], gives: [0, 1, 3] },
  ],
  cummax: [{ args: () => [array([1, 3, 2])], gives: [1, 3, 3] }],
  arrayEqual: [
    { args: () => [array([1, NaN]), array([1, NaN])], gives: false, dtype: 'bool_' },
    { args: () => [array([1, NaN]), array([1, NaN]), true], gives: true },
  ],
  allclose: [
    { args: () => [array([1, 2]), array([1, 2.000001])], gives: true, dtype: 'bool_' },
    { args: () => [array([1, 2]), array([1, 2.1])], gives: false },
    { args: () => [array([1, 2]), array([1, 2.1]), 0, 0.2], gives: true },
  ],
  isclose: [{ args: () => [array([1, 2]), array([1, 2.1])], gives: [true, false] }],
};

const linear: Record<string, OpCase[]> = {
  matmul: two(matrix, [[1], [0], [-1]], [[-2], [-2]]),
  addmm: [
    { args: () => [array([[1]]), array([[2]]), array([[3]])], gives: [[7]] },
    { args: () => [array([[1]]), array([[2]]), array([[3]]), 2, -1], gives: [[11]] },
  ],
  linear: [
    { args: () => [array([[1, 2, 3]]), array(matrix)], gives: [[14, 32]] },
    { args: () => [array([[1, 2, 3]]), array(matrix), array([1, -1])], gives: [[15, 31]] },
  ],
  outer: two(
    [1, 2],
    [3, 4],
    [
      [3, 4],
      [6, 8],
    ],
  ),
  inner: two([1, 2], [3, 4], 11),
  conv1d: [
    { args: () => [array([[[1], [2], [4]]]), array([[[1], [10]]])], gives: [[[21], [42]]] },
    {
      args: () => [array([[[1], [2], [4]]]), array([[[1], [10]]]), 2, 1],
      gives: [[[10], [42]]],
    },
    { args: () => [array([[[1], [2], [4]]]), array([[[1], [10]]]), 1, 0, 2], gives: [[[41]]] },
    { args: () => [array([[[1, 2]]]), array([[[3]], [[4]]]), 1, 0, 1, 2], gives: [[[3, 8]]] },
  ],
  norm: [
    { args: () => [array([3, 4])], gives: 5 },
    { args: () => [array([[3, 4]]), 1, true], gives: [[5]] },
  ],
};

const root = Math.sqrt(12.5 + 1e-5);
const fast: Record<string, OpCase[]> = {
  layerNorm: [
    { args: () => [array([[1, 3]])], gives: [[-1, 1]], tolerance: 1e-5 },
    { args: () => [array([[1, 3]]), array([2, 2]), array([5, 5]), 3], gives: [[4, 6]] },
  ],
  rmsNorm: [{ args: () => [array([[3, 4]]), array([1, 2])], gives: [[3 / root, 8 / root]] }],
  rope: [
    {
      // Position 1 turns the pair (x0, x1) by one radian.
      args: () => [
        array([
          [
            [
              [5, 6],
              [1, 0],
            ],
          ],
        ]),
        2,
        false,
        10000,
      ],
      gives: [
        [
          [
            [5, 6],
            [Math.cos(1), Math.sin(1)],
          ],
        ],
      ],
    },
  ],
  scaledDotProductAttention: [
    {
      args: () => [array([[[[1]]]]), array([[[[0], [Math.log(3)]]]]), array([[[[0], [4]]]]), 1],
      gives: [[[[3]]]],
    },
    {
      args: () => [
        array([[[[1], [1]]]]),
        array([[[[0], [Math.log(3)]]]]),
        array([[[[0], [4]]]]),
        1,
        'causal',
      ],
      gives: [[[[0], [3]]]],
    },
  ],
  fft: [
    {
      args: () => [array([1, 0, 0, 0]), 2],
      gives: [
        [1, 0],
        [1, 0],
      ],
      dtype: 'complex64',
    },
    {
      args: () => [array([0, 1, 0, 0])],
      gives: [
        [1, 0],
        [0, -1],
        [-1, 0],
        [0, 1],
      ],
    },
  ],
  ifft: [
    {
      args: () => [complex([1, 0, 0, -1, -1, 0, 0, 1])],
      gives: [
        [0, 0],
        [1, 0],
        [0, 0],
        [0, 0],
      ],
    },
  ],
  rfft: [
    {
      args: () => [array([0, 1, 0, 0])],
      gives: [
        [1, 0],
        [0, -1],
        [-1, 0],
      ],
    },
  ],
  irfft: [{ args: () => [complex([1, 0, 0, -1, -1, 0])], gives: [0, 1, 0, 0], dtype: 'float32' }],
};

const key = (): MxArray => mx.randomKey(0);
const random: Record<string, OpCase[]> = {
  randomKey: [
    { args: () => [0], gives: [0, 0], dtype: 'uint32' },
    { args: () => [2 ** 40 + 5], gives: [256, 5] },
  ],
  // Threefry-2x32 as in JAX, whose documentation shows these very keys.
  randomSplit: [
    {
      args: () => [key()],
      gives: [
        [4146024105, 967050713],
        [2718843009, 1272950319],
      ],
      dtype: 'uint32',
    },
  ],
  randomUniform: [{ args: () => [key(), [2], 3, 3], gives: [3, 3], dtype: 'float32' }],
  randomNormal: [{ args: () => [key(), [0]], gives: [], dtype: 'float32' }],
  randomInteger: [{ args: () => [key(), [2], 5, 6], gives: [5, 5], dtype: 'int32' }],
  randomBernoulli: [
    { args: () => [key(), 1, [2]], gives: [true, true], dtype: 'bool_' },
    { args: () => [key(), 0, [2]], gives: [false, false] },
  ],
  randomGumbel: [{ args: () => [key(), [0]], gives: [], dtype: 'float32' }],
  randomCategorical: [
    {
      args: () => [
        key(),
        array([
          [0, -Infinity],
          [-Infinity, 0],
        ]),
      ],
      gives: [0, 1],
      dtype: 'uint32',
    },
  ],
};

export const opCases: Readonly<Record<string, OpCase[]>> = {
  ...elementwise,
  ...shapes,
  ...reductions,
  ...linear,
  ...fast,
  ...random,
};
