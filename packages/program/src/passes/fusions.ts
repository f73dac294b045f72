/** Models written op by op get the fused ops of the table. */
import type { Argument } from '../graph.js';
import { sameSize, type Size } from '../sizes.js';
import { any, call, fusing, is, type Fusion, type Match, type Pattern } from './pattern.js';

const isAbsent = (arg: Argument): boolean => arg === null;
const equals = (value: number): Pattern => is((arg) => arg === value);

/** The last axis of reductions, as −1 or by its number. */
function isLastAxis(axes: Argument, ndim: number): boolean {
  const [axis, more] =
    typeof axes === 'object' && axes !== null && 'list' in axes ? axes.list : [axes];
  return more === undefined && (axis === -1 || axis === ndim - 1);
}

/** x · rsqrt(mean(x²) + eps), with or without a weight: Zhang and Sennrich 2019. */
const meanSquare = (square: Pattern): Pattern =>
  call(
    'mean',
    square,
    any('axes'),
    is((arg) => arg === true),
  );
const squares = [
  call('square', any('x')),
  call('multiply', any('x'), any('x')),
  call('power', any('x'), equals(2)),
];

const rmsNorms: Fusion[] = squares.map((square) => ({
  pattern: call('multiply', any('x'), call('rsqrt', call('add', meanSquare(square), any('eps')))),
  replace(match) {
    const eps = match.number('eps');
    const isPlain = isLastAxis(match.get('axes'), match.shape('x').length);
    if (eps === undefined || !isPlain || !sameFloats(match, ['x'])) {
      return undefined;
    }
    return { op: 'rmsNorm', args: [match.get('x'), null, eps] };
  },
}));

const weightedRmsNorm: Fusion = {
  pattern: call('multiply', any('weight'), call('rmsNorm', any('x'), is(isAbsent), any('eps'))),
  replace(match) {
    const [size] = match.shape('weight');
    const x = match.shape('x');
    if (match.shape('weight').length !== 1 || size !== x.at(-1)) return undefined;
    return { op: 'rmsNorm', args: [match.get('x'), match.get('weight'), match.get('eps')] };
  },
};

/** softmax(q · kᵀ · scale + mask) · v, with the scale on q, on the scores, or nowhere. */
const keysTransposed = [
  call('swapaxes', any('k'), equals(-1), equals(-2)),
  call('swapaxes', any('k'), equals(-2), equals(-1)),
  call('swapaxes', any('k'), equals(2), equals(3)),
  call('transpose', any('k'), is(isPermutation([0, 1, 3, 2]))),
];

function isPermutation(axes: readonly number[]): (arg: Argument) => boolean {
  return (arg) =>
    typeof arg === 'object' && arg !== null && 'list' in arg && arg.list.join() === axes.join();
}

const scores = keysTransposed.flatMap((k) => [
  call('matmul', call('multiply', any('q'), any('scale')), k),
  call('multiply', call('matmul', any('q'), k), any('scale')),
  call('divide', call('matmul', any('q'), k), any('divisor')),
  call('matmul', any('q'), k),
]);

const attentions: Fusion[] = scores.flatMap((score) =>
  [call('add', score, any('mask')), score].map((masked) => ({
    pattern: call('matmul', call('softmax', masked, any('axes'), any('precise')), any('v')),
    replace: attention,
  })),
);

function attention(match: Match): ReturnType<Fusion['replace']> {
  const [q, k, v] = ['q', 'k', 'v'].map((name) => match.shape(name));
  const four = q.length === 4 && k.length === 4 && v.length === 4;
  const together = [k, v].every((x) => sameSize(x[0], q[0]) && sameSize(x[1], q[1]));
  if (!four || !together || !isLastAxis(match.get('axes'), 4)) return undefined;
  const scale = scaleOf(match);
  const mask = match.get('mask') ?? null;
  if (scale === undefined || !sameFloats(match, ['q', 'k', 'v'])) return undefined;
  if (mask !== null && !isAddedMask(match, [q[0], q[1], q[2], k[2]])) return undefined;
  const args = [match.get('q'), match.get('k'), match.get('v'), scale];
  return {
    op: 'scaledDotProductAttention',
    args: mask === null ? args : [...args, 'array', mask],
  };
}

const floats = new Set(['float32', 'float16', 'bfloat16']);

function sameFloats(match: Match, names: readonly string[]): boolean {
  const dtypes = names.map((name) => match.dtype(name));
  return floats.has(String(dtypes[0])) && dtypes.every((dtype) => dtype === dtypes[0]);
}

/** The op adds floats, but chooses by booleans, and doesn't repeat scores for a larger mask. */
function isAddedMask(match: Match, scores: readonly Size[]): boolean {
  const shape = match.shape('mask');
  const facing = scores.slice(scores.length - shape.length);
  const within = shape.length > 0 && shape.length <= scores.length;
  return (
    within &&
    sameFloats(match, ['q', 'mask']) &&
    shape.every((size, i) => size === 1 || sameSize(size, facing[i]))
  );
}

function scaleOf(match: Match): number | undefined {
  if (match.get('divisor') !== undefined) {
    const divisor = match.number('divisor');
    return divisor === undefined ? undefined : 1 / divisor;
  }
  return match.get('scale') === undefined ? 1 : match.number('scale');
}

/** x · wᵀ (+ bias) */
const weightTransposed = [
  call(
    'transpose',
    any('w'),
    is((arg) => arg === null || isPermutation([1, 0])(arg)),
  ),
  call('swapaxes', any('w'), equals(0), equals(1)),
  call('swapaxes', any('w'), equals(-1), equals(-2)),
];

const linears: Fusion[] = weightTransposed.map((w) => ({
  pattern: call('matmul', any('x'), w),
  replace: (match) =>
    match.shape('w').length === 2 && match.shape('x').length > 0
      ? { op: 'linear', args: [match.get('x'), match.get('w')] }
      : undefined,
}));

const biasedLinear: Fusion = {
  pattern: call('add', call('linear', any('x'), any('w'), is(isAbsent)), any('bias')),
  replace(match) {
    const bias = match.shape('bias');
    if (bias.length !== 1 || bias[0] !== match.shape('w')[0]) return undefined;
    return { op: 'linear', args: [match.get('x'), match.get('w'), match.get('bias')] };
  },
};

/** x · dequantize(w)ᵀ, without making the weights. */
const quantizedLinear: Fusion = {
  pattern: call(
    'linear',
    any('x'),
    call('dequantize', ...['w', 'scales', 'biases', 'groupSize', 'bits', 'mode'].map(any)),
    is(isAbsent),
  ),
  replace(match) {
    const names = ['groupSize', 'bits', 'mode'];
    const [x, w, scales, biases] = ['x', 'w', 'scales', 'biases'].map((name) => match.get(name));
    // Scales in bytes say nothing of the dtype of the weights that are made.
    if (!sameFloats(match, ['x', 'scales'])) return undefined;
    const args = [x, w, scales, biases, true, ...names.map((name) => match.get(name))];
    while (args.at(-1) === null) args.pop();
    return { op: 'quantizedMatmul', args };
  },
};

/** In this order: later ones build on what earlier ones made. */
export const fusions = [
  fusing(rmsNorms),
  fusing([weightedRmsNorm]),
  fusing(attentions),
  fusing(linears),
  fusing([biasedLinear, quantizedLinear]),
];
