/**
 * Measures the fused ops of a decoder against the same composed of MLX's plain ops, and writes results/decoder.json.
 * Either side is several independent results in one evaluation, as the layers of a step are.
 */
import { mx } from '@mlx-runners/mlx-core';
import { scriptOptions } from '../scripts/script-options.mjs';
import { runScript, ToolError } from '../scripts/tool-error.mjs';
import { row, writeResults } from './rows.mjs';

/** @typedef {import('@mlx-runners/mlx-core').MxArray} MxArray */

/**
 * @typedef {object} Case
 * @property {string} what
 * @property {number[][]} operands their shapes
 * @property {number} [copies] how many of each operand there are, each with a result of its own
 * @property {(...operands: MxArray[]) => MxArray} fused
 * @property {(...operands: MxArray[]) => MxArray} composed
 */

const EPS = 1e-5;

const meanOfSquares = (/** @type {MxArray} */ x) => mx.mean(mx.square(x), -1, true);
const composedRmsNorm = (/** @type {MxArray} */ x, /** @type {MxArray} */ weight) =>
  x.multiply(mx.rsqrt(meanOfSquares(x).add(EPS))).multiply(weight);

/** @returns {Case} One query for each head against a cache of `context` positions. */
function decodeAttention(
  /** @type {number} */ heads,
  /** @type {number} */ kvHeads,
  /** @type {number} */ dim,
  /** @type {number} */ context,
) {
  const scale = 1 / Math.sqrt(dim);
  return {
    what: `attention of a step, ${heads} heads, ${kvHeads} of keys, dim ${dim}, context ${context}`,
    operands: [
      [1, heads, 1, dim],
      [1, kvHeads, context, dim],
      [1, kvHeads, context, dim],
    ],
    // Together beyond the caches.
    copies: Math.max(2, Math.ceil(2 ** 24 / (kvHeads * context * dim))),
    fused: (q, k, v) => mx.scaledDotProductAttention(q, k, v, scale),
    composed: (q, k, v) => {
      // The queries of a head of keys as the rows of one matrix.
      const queries = q.reshape([1, kvHeads, heads / kvHeads, dim]);
      const scores = mx.matmul(queries, k.transpose([0, 1, 3, 2])).multiply(scale);
      return mx.matmul(mx.softmax(scores, -1), v).reshape([1, heads, 1, dim]);
    },
  };
}

/** @returns {Case[]} Of a step and of a prompt. */
function rowOps(/** @type {number} */ rows) {
  const name = (/** @type {string} */ op) => `${op}, ${rows} x `;
  return [
    {
      what: `${name('softmax')}4096`,
      operands: [[rows, 4096]],
      fused: (x) => mx.softmax(x, -1),
      composed: (x) => {
        const powers = mx.exp(x.subtract(mx.max(x, -1, true)));
        return powers.divide(mx.sum(powers, -1, true));
      },
    },
    {
      what: `${name('rmsNorm')}1024`,
      operands: [[rows, 1024], [1024]],
      fused: (x, weight) => mx.rmsNorm(x, weight, EPS),
      composed: composedRmsNorm,
    },
    {
      what: `${name('addRmsNorm')}1024`,
      operands: [[rows, 1024], [rows, 1024], [1024]],
      fused: (x, residual, weight) => second(mx.addRmsNorm(x, residual, weight, EPS)),
      composed: (x, residual, weight) => composedRmsNorm(x.add(residual), weight),
    },
    {
      what: `${name('swiglu')}3072`,
      operands: [
        [rows, 3072],
        [rows, 3072],
      ],
      fused: (gate, up) => mx.swiglu(gate, up),
      composed: (gate, up) => gate.multiply(mx.sigmoid(gate)).multiply(up),
    },
    rope(rows),
  ];
}

/** @returns {Case} */
function rope(/** @type {number} */ rows) {
  const [heads, dim, base] = [16, 128, 10000];
  // Made once, as a model would that has no fused op.
  const steps = Array.from({ length: dim / 2 }, (_, i) => base ** ((-2 * i) / dim));
  const angles = mx.arange(0, rows).reshape([rows, 1]).multiply(mx.array(steps));
  const [cos, sin] = [mx.cos(angles), mx.sin(angles)];
  mx.evalSync(cos, sin);
  return {
    what: `rope, ${rows} x ${heads} heads of ${dim}`,
    operands: [[1, heads, rows, dim]],
    fused: (x) => mx.rope(x, dim, false, base),
    composed: (x) => {
      const [a, b] = mx.split(x, 2, -1);
      if (!a || !b) throw new ToolError('split has to give two parts');
      return mx.concatenate(
        [a.multiply(cos).subtract(b.multiply(sin)), b.multiply(cos).add(a.multiply(sin))],
        -1,
      );
    },
  };
}

function second(/** @type {MxArray[]} */ [, array]) {
  if (!array) throw new ToolError('the op has to give two arrays');
  return array;
}

/** The best times of both, in turns. */
function measure(/** @type {Case} */ { what, operands, copies = 8, fused, composed }) {
  let seed = 0;
  const layers = Array.from({ length: copies }, () =>
    operands.map((shape) => mx.randomNormal(mx.randomKey(++seed), shape)),
  );
  mx.evalSync(...layers.flat());
  const microseconds = (/** @type {Case['fused']} */ op) =>
    mx.tidy(() => {
      const started = performance.now();
      mx.evalSync(...layers.map((layer) => op(...layer)));
      return ((performance.now() - started) * 1e3) / copies;
    });
  check(what, () => fused(...(layers[0] ?? [])).subtract(composed(...(layers[0] ?? []))));
  const best = { ours: Infinity, peer: Infinity };
  const started = performance.now();
  for (let turn = 0; turn < 5 || performance.now() - started < 600; ++turn) {
    best.ours = Math.min(best.ours, microseconds(fused));
    best.peer = Math.min(best.peer, microseconds(composed));
  }
  for (const array of layers.flat()) array.dispose();
  return best;
}

function check(/** @type {string} */ what, /** @type {() => MxArray} */ difference) {
  const off = mx.tidy(() => mx.max(mx.abs(difference())).itemSync());
  if (!(off < 1e-3))
    throw new ToolError(`${what}: the fused op and the plain ones differ by ${off}`);
}

await runScript(() => {
  scriptOptions('none', {});
  const cases = [
    decodeAttention(9, 3, 64, 512),
    decodeAttention(9, 3, 64, 4096),
    decodeAttention(16, 8, 128, 512),
    decodeAttention(16, 8, 128, 4096),
    ...rowOps(1),
    ...rowOps(512),
  ];
  const rows = cases.map((each) => {
    const { ours, peer } = measure(each);
    return row({
      what: each.what,
      ours: Number(ours.toPrecision(4)),
      peer: Number(peer.toPrecision(4)),
      peerName: 'plain ops',
      unit: 'us',
      better: 'lower',
      goal: 1,
    });
  });
  writeResults('decoder', rows);
});
