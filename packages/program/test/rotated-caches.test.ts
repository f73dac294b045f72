/** Attention over caches that rotates and splits itself, against the ops that it takes the place of. */
import {
  DtypeError,
  CellCache,
  mx,
  SequenceCache,
  ShapeError,
  type KvStorage,
  type MxArray,
} from '@mlx-runners/mlx-core';
import { readExport, type Method, type Session } from '@mlx-runners/program';
import { describe, expect, it, onTestFinished } from 'vitest';
import { exported, loaded, normal, numbers } from './models.js';

const [heads, kvHeads, size, valueSize, window] = [4, 2, 64, 32, 40];
const scale = 0.2;
const layers = [
  { kvHeads, headSize: size, valueSize },
  { kvHeads, headSize: size, valueSize, window },
];
const periods = Float32Array.from({ length: size / 2 }, (_, i) => 3 ** (i / 4));

interface Rotation {
  dims: number;
  traditional?: boolean;
  base?: number;
  positionScale?: number;
}
const rotations: Record<string, Rotation> = {
  halves: { dims: size, base: 10_000 },
  'neighbours, of a part': { dims: 48, traditional: true, base: 500, positionScale: 0.25 },
  periods: { dims: size },
  'periods of neighbours': { dims: size, traditional: true, positionScale: 2 },
};

type Position = number | MxArray;
type Tokens = Record<'q' | 'k' | 'v', MxArray>;
type Layer = (tokens: Tokens, position: Position, layer: number) => Record<string, MxArray>;

const split = (x: MxArray, count: number): MxArray => {
  const [batch, length, width] = x.shape;
  return x.reshape([batch, length, count, width / count]).transpose([0, 2, 1, 3]);
};
const merge = (x: MxArray): MxArray => {
  const [batch, count, length, width] = x.shape;
  return x.transpose([0, 2, 1, 3]).reshape([batch, length, count * width]);
};
const windowOf = (layer: number): number => layers[layer].window ?? 0;

const rotating =
  ({ dims, traditional = false, base, positionScale = 1 }: Rotation) =>
  (x: MxArray, position: Position): MxArray => {
    const freqs = base === undefined ? mx.array(periods.slice(0, dims / 2)) : null;
    return mx.rope(x, dims, traditional, base ?? null, positionScale, position, freqs);
  };

/** As models are written; what is a result as well can't be fused. */
const written =
  (rotation: Rotation, alsoRotated: boolean): Layer =>
  ({ q, k, v }, position, layer) => {
    const turn = rotating(rotation);
    const [turnedQ, turnedK] = [turn(split(q, heads), position), turn(split(k, kvHeads), position)];
    const values = split(v, kvHeads);
    const by = windowOf(layer);
    const y = merge(mx.updateAndAttend(turnedQ, turnedK, values, position, layer, scale, by));
    return { y, ...(alsoRotated && { turnedQ, turnedK }) };
  };

const inOne =
  ({ dims, traditional = false, base, positionScale = 1 }: Rotation): Layer =>
  ({ q, k, v }, position, layer) => {
    const freqs = base === undefined ? mx.array(periods.slice(0, dims / 2)) : null;
    return {
      y: mx.updateAndAttend(
        ...[q, k, v, position, layer, scale, windowOf(layer), 0, heads, kvHeads],
        ...[dims, traditional, base ?? null, positionScale, freqs],
      ),
    };
  };

type Inputs = Record<string, MxArray>;

/** The layers of a method, each with tokens of its own: q0, k0, v0, q1 and so on. */
const both = (layer: Layer, inputs: Inputs, position: Position): Record<string, MxArray> => {
  const results = layers.map((_, i) => {
    const tokens = { q: inputs[`q${i}`], k: inputs[`k${i}`], v: inputs[`v${i}`] };
    return Object.entries(layer(tokens, position, i)).map(
      ([name, x]) => [`${name}${i}`, x] as const,
    );
  });
  return Object.fromEntries(results.flat());
};

const widths = Object.entries({ q: heads * size, k: kvHeads * size, v: kvHeads * valueSize });

const inputsOf = (lead: readonly (number | string)[]): Method['inputs'] =>
  Object.fromEntries(
    layers.flatMap((_, i) =>
      widths.map(([name, width]) => [`${name}${i}`, { dtype: 'float32', shape: [...lead, width] }]),
    ),
  );

const forward = (layer: Layer, batch: number): Method => ({
  dimensions: { T: { min: 1, max: 400 }, past: { min: 0, max: 400 } },
  inputs: inputsOf([batch, 'T']),
  run: (tokens, { past }) => both(layer, tokens, past),
});

const step = (layer: Layer): Method => ({
  dimensions: { B: { min: 1, max: 40 } },
  inputs: { ...inputsOf(['B', 1]), positions: { dtype: 'int32', shape: ['B'] } },
  run: ({ positions, ...tokens }) => both(layer, tokens, positions),
});

async function session(method: Method): Promise<Session> {
  const model = await loaded({ method });
  const made = model.session();
  onTestFinished(() => {
    made.dispose();
    model.dispose();
  });
  return made;
}

const tokensOf = (seed: number, batch: number, length: number): Inputs =>
  Object.fromEntries(
    layers.flatMap((_, i) =>
      widths.map(([name, width], j) => [
        `${name}${i}`,
        normal(seed + 3 * i + j, [batch, length, width]),
      ]),
    ),
  );

const storages: KvStorage[] = ['float32', 'float16', 'bfloat16', 'q8', 'q4'];

describe.each(Object.entries(rotations))('rotation by %s', (name, rotation) => {
  const forms = (name === 'halves' ? storages : ['float32' as const]).flatMap((storage) =>
    [false, true].map((composed) => [storage, composed] as const),
  );

  it.each(forms)('in a sequence cache of %s, composed: %s', async (storage, composed) => {
    const batch = storage === 'float32' ? 2 : 1;
    const results: number[][][] = [];
    for (const layer of [written(rotation, true), inOne(rotation)]) {
      const made = await session(forward(layer, batch));
      using cache = new SequenceCache({ layers, capacity: 400, batch, storage, maxWrite: 300 });
      if (composed) cache.act((addon, handle) => addon.composeCache(handle));
      const all: number[][] = [];
      for (const length of [7, 1, 300, 1, 7]) {
        const inputs = { ...tokensOf(length, batch, length), past: cache.length };
        const { outputs } = await made.run('method', inputs, { cache });
        all.push(await numbers(outputs.y0), await numbers(outputs.y1));
      }
      for (const array of (await cache.state()).values()) all.push(await numbers(array));
      results.push(all);
    }
    expect(results[1]).toEqual(results[0]);
  });

  it.each(forms)('in a cell cache of %s, composed: %s', async (storage, composed) => {
    const results: number[][][] = [];
    for (const layer of [written(rotation, true), inOne(rotation)]) {
      const made = await session(step(layer));
      using cache = new CellCache({ layers, cells: 64, storage });
      if (composed) cache.act((addon, handle) => addon.composeCache(handle));
      const [a, b] = [cache.open(), cache.open()];
      const all: number[][] = [];
      for (const sequences of [[a, a, b, a, a, b, b], [b], [a, a, b]]) {
        const lengths = new Map([a, b].map((each) => [each, cache.length(each)]));
        const positions = sequences.map((each) => {
          const position = lengths.get(each)!;
          lengths.set(each, position + 1);
          return position;
        });
        const { outputs } = await made.run(
          'method',
          {
            ...tokensOf(positions.length, positions.length, 1),
            positions: mx.array(positions, null, 'int32'),
          },
          { cache, sequences: Int32Array.from(sequences) },
        );
        all.push(await numbers(outputs.y0), await numbers(outputs.y1));
      }
      results.push(all);
    }
    expect(results[1]).toEqual(results[0]);
  });

  it.each(['float32', 'float16', 'bfloat16'] as const)('of %s without a cache', async (dtype) => {
    const given = tokensOf(7, 2, 5);
    const [q, k, v] = [given.q0, given.k0, given.v0].map((x) => x.astype(dtype));
    const position = mx.array([3, 9], null, 'int32');
    const [right, actual] = [written(rotation, false), inOne(rotation)].map(
      (layer) => layer({ q, k, v }, position, 0).y,
    );
    expect(actual.dtype).toBe(dtype);
    expect(await numbers(actual)).toEqual(await numbers(right));
  });
});

/** Ops of each trace. */
async function opsOf(method: Method): Promise<string[]> {
  const [program] = readExport(await exported({ method })).programs;
  return program.traces.map(({ instructions }) => instructions.map(({ op }) => op).join(' '));
}
const exportedOps = (layer: Layer): Promise<string[]> => opsOf(forward(layer, 1));

describe('what is written op by op', () => {
  it.each(Object.entries(rotations))('becomes one: rotation by %s', async (_, rotation) => {
    for (const ops of await exportedOps(written(rotation, false))) {
      expect(ops).toBe('updateAndAttend updateAndAttend');
    }
  });

  it('with norms of heads leaves those, and what splits them', async () => {
    const turn = rotating(rotations.halves);
    const normed: Layer = ({ q, k, v }, position, layer) => {
      const [x, y] = [split(q, heads), split(k, kvHeads)].map((each) =>
        turn(mx.rmsNorm(each, null, 1e-6), position),
      );
      const values = split(v, kvHeads);
      return { y: merge(mx.updateAndAttend(x, y, values, position, layer, scale)) };
    };
    for (const ops of await exportedOps(normed)) {
      expect(ops).not.toContain('rope');
      expect(ops.match(/rmsNorm/g)).toHaveLength(2 * layers.length);
      expect(ops.match(/reshape/g)).toHaveLength(2 * layers.length);
    }
  });

  it.each<[string, (q: MxArray, k: MxArray, past: number) => [MxArray, MxArray]]>([
    ['only q', (q, k, past) => [rotating(rotations.halves)(q, past), k]],
    [
      'q and k from other positions',
      (q, k, past) => [
        rotating(rotations.halves)(q, past),
        rotating(rotations.halves)(k, past + 1),
      ],
    ],
    [
      'both from another position than that of the tokens',
      (q, k) => [rotating(rotations.halves)(q, 0), rotating(rotations.halves)(k, 0)],
    ],
    [
      'q and k by other rotations',
      (q, k, past) => [rotating(rotations.halves)(q, past), rotating(rotations.periods)(k, past)],
    ],
  ])('stays where it rotates %s', async (_, turn) => {
    const other: Layer = ({ q, k, v }, position, layer) => {
      const [x, y] = turn(split(q, heads), split(k, kvHeads), position as number);
      const values = split(v, kvHeads);
      return { y: merge(mx.updateAndAttend(x, y, values, position, layer, scale)) };
    };
    for (const ops of await exportedOps(other)) expect(ops).toContain('rope');
  });

  it('stays where something else reads what is rotated', async () => {
    for (const ops of await exportedOps(written(rotations.halves, true))) {
      expect(ops.match(/rope/g)).toHaveLength(4);
    }
  });

  it('stays where layers share keys', async () => {
    const shared = (inputs: Inputs, past: number): Inputs => {
      const turn = rotating(rotations.halves);
      const keys = turn(split(inputs.k0, kvHeads), past);
      const values = split(inputs.v0, kvHeads);
      const results = [inputs.q0, inputs.q1].map((q) =>
        merge(mx.updateAndAttend(turn(split(q, heads), past), keys, values, past, 0, scale)),
      );
      return Object.fromEntries(results.map((y, i) => [`y${i}`, y]));
    };
    const method = { ...forward(inOne(rotations.halves), 1) };
    method.run = (inputs, { past }) => shared(inputs, past);
    for (const ops of await opsOf(method)) expect(ops.match(/rope/g)).toHaveLength(3);
  });
});

describe('what does not fit is refused', () => {
  const { q0: q, k0: k, v0: v } = tokensOf(1, 1, 3);
  const one = mx.ones([1, 1, 1]);
  const call =
    (...rest: [number, number, number?, boolean?, (number | null)?, number?, (MxArray | null)?]) =>
    () =>
      mx.updateAndAttend(q, k, v, 0, 0, scale, 0, 0, ...rest);
  it.each<[string, () => unknown, RegExp]>([
    ['heads without kvHeads', call(4, 0), /heads and kvHeads have to be positive, or both 0/],
    ['heads side by side without their number', call(0, 0), /q has to be of 4 axes/],
    ['a number of heads that is none', call(5, 2), /q has rows of 256, .* no multiple of heads, 5/],
    ['as many keys', call(4, 3), /k has rows of 128, .* no multiple of kvHeads, 3/],
    [
      'another number than there are',
      () => mx.updateAndAttend(split(q, 4), k, v, 0, 0, scale, 0, 0, 2, 2),
      /q has 4 heads, and heads is 2/,
    ],
    ['odd dims', call(4, 2, 7, false, 100), /dims has to be an even number up to .* 64/],
    ['dims beyond the head', call(4, 2, 66, false, 100), /dims has to be an even number up to/],
    ['neither base nor freqs', call(4, 2, 64), /a rotation needs either base or freqs/],
    ['base and freqs', call(4, 2, 4, false, 100, 1, mx.ones([2])), /either base or freqs/],
    ['freqs of another size', call(4, 2, 4, false, null, 1, mx.ones([3])), /freqs .* dims \/ 2, 2/],
    ['a base without dims', call(4, 2, 0, false, 100), /which needs dims/],
    [
      'more heads side by side than an axis can have',
      () => {
        const [heads, valueSize] = [2 ** 20, 2 ** 12];
        const values = mx.ones([1, 1, valueSize]);
        return mx.updateAndAttend(mx.ones([1, 1, heads]), one, values, 0, 0, 1, 0, 0, heads, 1);
      },
      /rows of 4294967296, which is beyond 32 bits/,
    ],
  ])('%s', (_, refused, message) => {
    expect(refused).toThrow(ShapeError);
    expect(refused).toThrow(message);
    expect(refused).toThrow(/updateAndAttend/);
  });

  it.each<[string, () => unknown, RegExp]>([
    ['q of integers', () => mx.updateAndAttend(mx.ones(q.shape, 'int32'), k, v, 0, 0, 1), /q has/],
    [
      'a position that is a fraction',
      () => mx.updateAndAttend(q, k, v, mx.array(0.5), 0, 1, 0, 0, 4, 2, 64, false, 100),
      /position has to be an integer/,
    ],
  ])('%s', (_, refused, message) => {
    expect(refused).toThrow(DtypeError);
    expect(refused).toThrow(message);
  });
});
