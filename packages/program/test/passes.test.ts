import { mx, MxArray } from '@mlx-runners/mlx-core';
import {
  allPasses,
  assignSlots,
  foldCasts,
  foldConstants,
  foldViews,
  mergeConstants,
  removeDeadCode,
  shareCommonSubexpressions,
  traceMethod,
  type Constants,
  type Graph,
  type Method,
  type Pass,
} from '@mlx-runners/program';
import { expect, test } from 'vitest';
import { normal, numbers } from './models.js';

/** Constants by name, each array its own. */
class ConstantsOf implements Constants {
  readonly arrays = new Map<string, MxArray>();
  get = (name: string): MxArray => this.arrays.get(name)!;
  add(array: MxArray): string {
    const name = `new.${this.arrays.size}`;
    this.arrays.set(name, array);
    return name;
  }
}

async function traced(
  run: (x: MxArray) => MxArray | Record<string, MxArray>,
  shape = [2, 4],
): Promise<Graph> {
  const method: Method = {
    inputs: { x: { dtype: 'float32', shape } },
    run: ({ x }) => {
      const result = run(x);
      return result instanceof MxArray ? { y: result } : result;
    },
  };
  return (await traceMethod('method', method)).graph;
}

function after(pass: Pass | readonly Pass[], graph: Graph, constants = new ConstantsOf()): Graph {
  const before = JSON.stringify(graph);
  const passes = typeof pass === 'function' ? [pass] : pass;
  const result = passes.reduce((each, one) => one(each, constants), graph);
  // Passes change nothing in place.
  expect(JSON.stringify(graph)).toBe(before);
  return result;
}

const ops = ({ instructions }: Graph): string[] => instructions.map(({ op }) => op);

test('dead code: what no output needs is gone, with its constants', async () => {
  const weight = mx.ones([4]);
  const graph = await traced((x) => {
    x.exp().multiply(weight);
    return x.add(1);
  });
  const result = after(removeDeadCode, graph);
  expect(ops(result)).toEqual(['add']);
  expect(result.constants).toEqual([]);
  expect(result.types.size).toBe(2);
});

test('dead code: of several results one is enough to stay', async () => {
  const graph = await traced((x) => x.split(2, 1)[1]);
  expect(ops(after(removeDeadCode, graph))).toEqual(['split']);
});

test('dead code: states are results', async () => {
  const method: Method = {
    inputs: {},
    states: { n: { dtype: 'float32', shape: [] } },
    run: (_, __, states) => {
      states.n = states.n.add(1);
      return {};
    },
  };
  expect(ops(after(removeDeadCode, (await traceMethod('method', method)).graph))).toEqual(['add']);
});

test('common subexpressions: the same ops on the same arguments run once', async () => {
  const graph = await traced((x) => x.exp().add(1).multiply(x.exp().add(1)).add(x.exp().add(2)));
  const result = after(shareCommonSubexpressions, graph);
  expect(ops(result)).toEqual(['exp', 'add', 'multiply', 'add', 'add']);
  expect(result.instructions[2].args).toEqual([{ array: 2 }, { array: 2 }]);
});

test('common subexpressions: −0, infinities and NaN are different numbers', async () => {
  const graph = await traced((x) => ({
    a: x.add(0),
    b: x.add(-0),
    c: x.add(Infinity),
    d: x.add(NaN),
    e: x.add(-Infinity),
  }));
  expect(ops(after(shareCommonSubexpressions, graph))).toHaveLength(5);
});

test('casts: back and forth through a wider dtype is nothing', async () => {
  const graph = await traced((x) => x.astype('float16').astype('float32').astype('float16').add(1));
  const result = after([foldCasts, removeDeadCode], graph);
  expect(ops(result)).toEqual(['astype', 'add']);
});

test('casts: through a narrower dtype stays', async () => {
  const graph = await traced((x) => x.astype('float16').astype('float32').add(1));
  expect(ops(after([foldCasts, removeDeadCode], graph))).toEqual(['astype', 'astype', 'add']);
  const integers = await traced((x) => x.astype('int32').astype('float32').add(1));
  expect(ops(after([foldCasts, removeDeadCode], integers))).toEqual(['astype', 'astype', 'add']);
});

test('casts: to the dtype that it has', async () => {
  expect(ops(after(foldCasts, await traced((x) => x.astype('float32').add(1))))).toEqual(['add']);
});

test('views: of views, and those that change nothing', async () => {
  const chain = await traced((x) => x.reshape([8]).reshape([4, 2]).reshape([1, 8]).exp());
  expect(ops(after([foldViews, removeDeadCode], chain))).toEqual(['reshape', 'exp']);
  const back = await traced((x) =>
    x.reshape([8]).reshape([2, 4]).transpose([0, 1]).slice([0, 0], [2, 4]),
  );
  const result = after([foldViews, removeDeadCode], back);
  expect(result.instructions).toEqual([]);
  expect(result.outputs).toEqual([{ name: 'y', value: 0 }]);
  const other = await traced((x) => x.transpose([1, 0]).slice([3, 1], [-5, -5], [-1, -1]), [2, 2]);
  expect(ops(after(foldViews, other))).toEqual(['transpose', 'slice']);
});

test('views: a transposition of axes of size 1 is a reshape', async () => {
  const heads = await traced(
    (x) => x.reshape([1, 1, 2, 4]).transpose([0, 2, 1, 3]).exp(),
    [1, 1, 8],
  );
  const result = after([foldViews, removeDeadCode], heads);
  expect(result.instructions.map(({ op, args }) => [op, args[1]])).toEqual([
    ['reshape', { list: [1, 2, 1, 4] }],
    ['exp', undefined],
  ]);
  const tokens = await traced((x) => x.transpose([0, 2, 1, 3]), [1, 3, 2, 4]);
  expect(ops(after(foldViews, tokens))).toEqual(['transpose']);
});

test('constants: ops on constants run at export', async () => {
  const table = mx.array([1, 2, 3, 4]);
  const graph = await traced((x) => x.multiply(table.add(1).exp()).add(mx.arange(4)));
  const constants = new ConstantsOf();
  constants.arrays.set('constant.0', table);
  const result = after([foldConstants, removeDeadCode], graph, constants);
  expect(ops(result)).toEqual(['multiply', 'add']);
  const [first] = result.constants;
  const values = await numbers(constants.get(first.name));
  for (const [i, value] of values.entries()) expect(value).toBeCloseTo(Math.exp(i + 2), 3);
});

test('constants: what would only take more room is left', async () => {
  const weight = mx.ones([1, 4]);
  const grown = await traced((x) => x.add(weight.broadcastTo([100_000, 1, 4]).sum(0)));
  const constants = new ConstantsOf();
  constants.arrays.set('constant.0', weight);
  expect(ops(after(foldConstants, grown, constants))).toEqual(['broadcastTo', 'sum', 'add']);
});

test('constants of one name become one value', async () => {
  const graph = await traced((x) => x.add(mx.array([1])).multiply(mx.array([1])));
  const named = { ...graph, constants: graph.constants.map((each) => ({ ...each, name: 'one' })) };
  const result = after(mergeConstants, named);
  expect(result.constants).toHaveLength(1);
  expect(result.instructions[1].args[1]).toEqual(result.instructions[0].args[1]);
});

const weight = normal(1, [4]);
const matrix = normal(2, [3, 4]);
const fusions: [string, (x: MxArray) => MxArray, string[]][] = [
  [
    'rms norm',
    (x) => x.multiply(x.square().mean(-1, true).add(1e-5).rsqrt()).multiply(weight),
    ['rmsNorm'],
  ],
  [
    'rms norm, the other way round',
    (x) => weight.multiply(x.multiply(x).mean([1], true).add(1e-5).rsqrt().multiply(x)),
    ['rmsNorm'],
  ],
  [
    'no rms norm: over another axis',
    (x) => x.multiply(x.square().mean(0, true).add(1e-5).rsqrt()),
    ['square', 'mean', 'add', 'rsqrt', 'multiply'],
  ],
  [
    'no rms norm: of something else',
    (x) => x.multiply(x.exp().square().mean(-1, true).add(1e-5).rsqrt()),
    ['exp', 'square', 'mean', 'add', 'rsqrt', 'multiply'],
  ],
  ['linear', (x) => x.matmul(matrix.transpose()).add(normal(3, [3])), ['linear']],
  [
    'no linear: something is added that is no bias',
    (x) => x.matmul(matrix.transpose()).add(mx.ones([2, 1]).add(x.sum())),
    ['linear', 'sum', 'add', 'add'],
  ],
];
test.each(fusions)('fusion: %s', async (_, run, expected) => {
  const constants = new ConstantsOf();
  constants.add = () => 'folded';
  const graph = await traced(run);
  for (const { name } of graph.constants) constants.arrays.set(name, mx.ones([4]));
  const passes = allPasses.filter((pass) => pass !== foldConstants);
  expect(ops(after(passes, graph, constants)).filter((op) => !/random|ones/.test(op))).toEqual(
    expected,
  );
});

test('fusion: attention', async () => {
  const attend = (x: MxArray, scale: 'q' | 'scores' | 'none', masked: boolean): MxArray => {
    const [q, k, v] = [x, x.add(1), x.add(2)];
    const scaled = scale === 'q' ? q.multiply(0.5) : q;
    let scores = scaled.matmul(k.transpose([0, 1, 3, 2]));
    if (scale === 'scores') scores = scores.divide(2);
    if (masked) scores = scores.add(mx.zeros([3, 3]));
    return scores.softmax(-1).matmul(v);
  };
  for (const scale of ['q', 'scores', 'none'] as const) {
    for (const masked of [true, false]) {
      const graph = after(
        allPasses.filter((pass) => pass !== foldConstants),
        await traced((x) => attend(x, scale, masked), [1, 2, 3, 4]),
      );
      const [last] = graph.instructions.slice(-1);
      expect(last.op).toBe('scaledDotProductAttention');
      expect(last.args[3]).toBe(scale === 'none' ? 1 : 0.5);
      expect(last.args.length).toBe(masked ? 6 : 4);
      expect(ops(graph)).not.toContain('softmax');
    }
  }
});

test('fusion: quantised linear', async () => {
  const [w, scales, biases] = mx.quantize(normal(5, [8, 64]), 32, 4);
  const graph = await traced(
    (x) => x.matmul(mx.dequantize(w, scales, biases, 32, 4).transpose()),
    [2, 64],
  );
  const passes = allPasses.filter((pass) => pass !== foldConstants);
  expect(ops(after(passes, graph))).toEqual(['quantizedMatmul']);
});

test('what lies between is not fused away when it is used elsewhere', async () => {
  const graph = await traced((x) => {
    const scale = x.square().mean(-1, true).add(1e-5).rsqrt();
    return { y: x.multiply(scale), scale };
  });
  expect(ops(after(allPasses, graph))).toEqual(['square', 'mean', 'add', 'rsqrt', 'multiply']);
});

test('slots: a deep stack needs as many temporaries as a shallow one', async () => {
  const stack = (depth: number): Promise<Graph> => {
    const weights = Array.from({ length: depth }, (_, i) => normal(i, [4, 4]));
    mx.evalSync(...weights);
    return traced((x) => weights.reduce((y, each) => y.linear(each).gelu(), x));
  };
  const [shallow, deep] = (await Promise.all([stack(4), stack(32)])).map(assignSlots);
  expect(deep.temporaries).toBe(shallow.temporaries);
  expect(shallow.temporaries).toBe(1);
  expect(deep.count).toBe(1 + 32 + 1);
});

test('slots: what is alive at the same time lies in different ones', async () => {
  const graph = await traced((x) => {
    const [a, b] = x.split(2, 1);
    return a.exp().add(b.exp()).add(a);
  });
  const { slots } = assignSlots(graph);
  const [split, expA, expB] = graph.instructions;
  const alive = [...split.results, ...expA.results].map((value) => slots.get(value));
  expect(new Set(alive).size).toBe(3);
  // b is read for the last time where exp(b) is made.
  expect(slots.get(expB.results[0])).toBe(slots.get(split.results[1]));
});
