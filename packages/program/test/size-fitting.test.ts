/** Expressions that traces are fitted with: right at every size, or refused. */
import { ProgramError } from '@mlx-runners/mlx-core';
import {
  formatSize,
  traceMethod,
  type Dimension,
  type Limit,
  type Size,
  type Sizes,
} from '@mlx-runners/program';
import fc from 'fast-check';
import { expect, test } from 'vitest';

type Truth = (sizes: Sizes) => number;

interface Case {
  /** Later ones may be made of what comes out of earlier ones. */
  truths: readonly Truth[];
  dimensions: Readonly<Record<string, Dimension>>;
  limits?: readonly Limit[];
}

// `FUZZ_CASES=5000 npx vitest run test/size-fitting.test.ts` tries others in every run.
const { FUZZ_CASES } = process.env;
const runs = FUZZ_CASES === undefined ? { numRuns: 100, seed: 1 } : { numRuns: Number(FUZZ_CASES) };

/** The fitted expressions of numbers that a method computes from its dimensions. */
async function fitted({ truths, dimensions, limits = [] }: Case): Promise<Size[] | undefined> {
  try {
    const { graph } = await traceMethod('method', {
      dimensions,
      limits,
      inputs: { x: { dtype: 'float32', shape: [1] } },
      run: ({ x }, sizes) => {
        return { y: truths.reduce((y, truth) => y.multiply(truth(sizes)), x) };
      },
    });
    return graph.instructions.map(({ args }) => {
      const arg = args[1];
      return typeof arg === 'object' && arg !== null && 'size' in arg ? arg.size : Number(arg);
    });
  } catch (error) {
    if (!(error instanceof ProgramError)) throw error;
    expect(error.message).toMatch(/multiply at .*size-fitting\.test\.ts:\d+: b /);
    return undefined;
  }
}

function evaluate(size: Size, sizes: Sizes): number {
  if (typeof size === 'number') return size;
  if (typeof size === 'string') return sizes[size];
  const [operator, left, right] = size;
  const [a, b] = [evaluate(left, sizes), evaluate(right, sizes)];
  return { '+': a + b, '*': a * b, '//': Math.floor(a / b), max: Math.max(a, b) }[operator];
}

/** Sizes to compare at: consecutive ones at either end, and others of small and of large numbers. */
function* comparedSizes({ dimensions, limits = [] }: Case): Iterable<Sizes> {
  const names = Object.keys(dimensions);
  const allowed = (sizes: Sizes): boolean =>
    limits.every(({ size, max }) => evaluate(size, sizes) <= max);
  const value = (name: string, share: number): number => {
    const { min, max, multipleOf = 1 } = dimensions[name];
    const [first, last] = [Math.ceil(min / multipleOf), Math.floor(max / multipleOf)];
    return (first + Math.floor(share * (last - first + 1))) * multipleOf;
  };
  for (let i = 0; i < 8000; i++) {
    // Evenly spread in two dimensions (Martin Roberts 2018).
    const shares = [0.7548776662466927, 0.5698402909980532].map((step) => (i * step) % 1);
    const sizes = names.map((name, axis) => {
      const { min, max, multipleOf = 1 } = dimensions[name];
      const last = (max - min) / multipleOf;
      const small = ((last + 1) ** shares[axis] - 1) / (last + 1);
      if (axis > 0 || i % 4 < 2) return [name, value(name, i % 2 === 0 ? small : shares[axis])];
      const end = Math.min(last, i >> 2) * multipleOf;
      return [name, i % 2 === 0 ? min + end : value(name, last / (last + 1)) - end];
    });
    const at = Object.fromEntries(sizes) as Sizes;
    if (allowed(at)) yield at;
  }
}

async function expectRightOrRefused(each: Case, mayRefuse = true): Promise<void> {
  const found = await fitted(each);
  if (!found && !mayRefuse) throw new Error('It was refused.');
  if (!found) return;
  for (const sizes of comparedSizes(each)) {
    for (const [i, truth] of each.truths.entries()) {
      const value = evaluate(found[i], sizes);
      if (value === truth(sizes)) continue;
      const at = JSON.stringify(sizes);
      throw new Error(`${formatSize(found[i])} is ${value}, not ${truth(sizes)}, at ${at}`);
    }
  }
}

/** Ranges up to ten million: about as many small ones as large ones. */
const range = (lowest = 0): fc.Arbitrary<Dimension> =>
  fc
    .tuple(
      fc.integer({ min: lowest, max: 600 }),
      fc.double({ min: 0.3, max: 7, noNaN: true }),
      fc.constantFrom(1, 1, 1, 2, 8, 10, 160),
    )
    .map(([min, digits, multipleOf]) => {
      const first = Math.ceil(min / multipleOf) * multipleOf;
      return { min: first, max: first + Math.floor(10 ** digits) * multipleOf, multipleOf };
    });

type Named = [text: string, f: (t: number) => number];

const divisor = fc.oneof(fc.integer({ min: 2, max: 20 }), fc.integer({ min: 2, max: 5000 }));
const line: fc.Arbitrary<Named> = fc
  .tuple(fc.integer({ min: 1, max: 500 }), divisor, fc.double({ min: -1, max: 2, noNaN: true }))
  .map(([a, c, share]) => {
    const b = Math.floor(share * c);
    return [`(${a}T + ${b}) // ${c}`, (t) => Math.floor((a * t + b) / c)];
  });
const multiple: fc.Arbitrary<Named> = fc
  .tuple(divisor, fc.double({ min: 0, max: 1, noNaN: true }))
  .map(([c, share]) => {
    const b = Math.floor(share * c);
    return [`((T + ${b}) // ${c}) * ${c}`, (t) => Math.floor((t + b) / c) * c];
  });
const padding: fc.Arbitrary<Named> = divisor.map((c) => [
  `(${c} - T % ${c}) % ${c}`,
  (t) => (c - (t % c)) % c,
]);
const remainder: fc.Arbitrary<Named> = divisor.map((c) => [`T % ${c}`, (t) => t % c]);
const clamped: fc.Arbitrary<Named> = fc
  .tuple(
    fc.integer({ min: 1, max: 9 }),
    fc.integer({ min: -999, max: 999 }),
    fc.boolean(),
    fc.nat(9999),
  )
  .map(([a, b, least, e]) =>
    least
      ? [`max(${a}T + ${b}, ${e})`, (t) => Math.max(a * t + b, e)]
      : [`min(${a}T + ${b}, ${e})`, (t) => Math.min(a * t + b, e)],
  );
const one = fc.oneof(line, line, multiple, padding, remainder, clamped);

async function check(cases: fc.Arbitrary<[string, Case]>, mayRefuse: boolean): Promise<void> {
  await fc.assert(
    fc.asyncProperty(cases, ([, each]) => expectRightOrRefused(each, mayRefuse)),
    { ...runs, endOnFailure: true },
  );
}

const shown = (text: string, dimensions: Case['dimensions']): string =>
  `${text}, ${JSON.stringify(dimensions)}`;

const known: [string, (t: number) => number, expression: string][] = [
  ['resampled from 44.1 to 16 kHz', (t) => Math.floor((t * 160) / 441), '(T * 160) // 441'],
  ['resampled from 16 to 14.7 kHz', (t) => Math.floor((t * 147) / 160), '(T * 147) // 160'],
  ['hops', (t) => Math.floor(t / 100), 'T // 100'],
  ['an odd divisor', (t) => Math.floor(t / 513), 'T // 513'],
  ['windows of 30 s', (t) => Math.ceil(t / 480_000), '(T + 479999) // 480000'],
  ['to the nearest', (t) => Math.round((t * 7) / 20), '(T * 7 + 10) // 20'],
  ['multiples', (t) => Math.ceil(t / 5000) * 5000, '((T + 4999) // 5000) * 5000'],
  ['beyond a multiple', (t) => t % 7, 'T + ((T // 7) * 7) * -1'],
  ['outside of a window', (t) => Math.max(t - 64, 0), 'max(T - 64, 0)'],
  ['inside of a window', (t) => Math.min(t, 448), 'max(T * -1, -448) * -1'],
];
test.each(known)('expressions over ten million sizes: %s', async (_, truth, expression) => {
  const dimensions = { T: { min: 1, max: 10_000_000 } };
  const found = await fitted({ truths: [({ T }) => truth(T)], dimensions });
  expect(found?.map(formatSize)).toEqual([expression]);
});

test('expressions of one dimension are found', async () => {
  const cases = fc
    .tuple(one, range())
    .map(([[text, f], T]): [string, Case] => [
      shown(text, { T }),
      { truths: [({ T: t }) => f(t)], dimensions: { T } },
    ]);
  await check(cases, false);
});

test('expressions of what came up before are found, or refused', async () => {
  const cases = fc
    .tuple(one, one, fc.constantFrom('after', 'sum', 'product'), range())
    .map(([[first, f], [second, g], how, T]): [string, Case] => {
      const both = (t: number): number => {
        if (how === 'after') return g(f(t));
        return how === 'sum' ? f(t) + g(t) : f(t) * g(t);
      };
      return [
        shown(`${first}; ${second}; ${how}`, { T }),
        {
          truths: [
            ({ T: t }) => f(t),
            ({ T: t }) => (how === 'after' ? f(t) : g(t)),
            ({ T: t }) => both(t),
          ],
          dimensions: { T },
        },
      ];
    });
  await check(cases, true);
});

test('expressions of two dimensions are found, or refused', async () => {
  const ways: Record<string, (f: Named[1], g: Named[1]) => Truth> = {
    sum:
      (f, g) =>
      ({ T, P }) =>
        f(T) + g(P),
    product:
      (f, g) =>
      ({ T, P }) =>
        f(T) * g(P),
    'of the sum':
      (f) =>
      ({ T, P }) =>
        f(T + P),
    'of the product':
      (f) =>
      ({ T, P }) =>
        f(T * P),
    max:
      (f, g) =>
      ({ T, P }) =>
        Math.max(f(T), g(P)),
    hidden:
      (f, g) =>
      ({ T, P }) =>
        f(T) + Math.floor(g(P) / 7),
  };
  const cases = fc
    .tuple(
      one,
      one,
      fc.constantFrom(...Object.keys(ways)),
      range(),
      range(),
      fc.boolean(),
      fc.nat(2),
    )
    .map(([[first, f], [second, g], how, T, P, seen, limited]): [string, Case] => [
      shown(`${first}; ${second}; ${how}; ${seen}; ${limited}`, { T, P }),
      {
        truths: [
          ...(seen ? [({ T: t }: Sizes) => f(t), ({ P: p }: Sizes) => g(p)] : []),
          ways[how](f, g),
        ],
        dimensions: { T, P },
        limits: [
          [],
          [{ size: ['+', 'T', 'P'] as const, max: Math.max(T.max, P.max) + T.min + P.min }],
          [{ size: ['*', 'T', 'P'] as const, max: T.min * P.min + 10 * Math.max(T.max, P.max) }],
        ][limited],
      },
    ]);
  await check(cases, true);
});

const bits = (t: number): number => t.toString(2).replaceAll('0', '').length;
const outside: fc.Arbitrary<Named> = fc
  .tuple(
    fc.double({ min: 0.01, max: 3, noNaN: true }),
    fc.integer({ min: 1, max: 999 }),
    fc.nat(12),
  )
  .map(([r, n, which]): Named => {
    const q = n / 1000;
    const all: Named[] = [
      ['T // 5000', (t) => Math.floor(t / 5000)],
      ['floor(sqrt T)', (t) => Math.floor(Math.sqrt(t))],
      ['floor(T * pi)', (t) => Math.floor(t * Math.PI)],
      [`round(T * ${q})`, (t) => Math.round(t * q)],
      [`floor(T * ${q})`, (t) => Math.floor(t * q)],
      [`ceil(T * ${q})`, (t) => Math.ceil(t * q)],
      [`floor(T / ${q})`, (t) => Math.floor(t / q)],
      ['floor(log2 T)', (t) => Math.floor(Math.log2(t + 1))],
      ['bits of T', bits],
      [`floor(T * ${r})`, (t) => Math.floor(t * r)],
      ['a branch in the middle', (t) => t + (t > 400 && t < 4000 ? 1 : 0)],
      ['T // 3 or 4', (t) => Math.floor(t / (t > 3000 ? 4 : 3))],
      ['T ** 2 // 7', (t) => Math.floor((t * t) / 7)],
    ];
    return all[which];
  });

test('what no expression gives is right at every size, or refused', async () => {
  const cases = fc
    .tuple(outside, range())
    .map(([[text, f], T]): [string, Case] => [
      shown(text, { T }),
      { truths: [({ T: t }) => f(t)], dimensions: { T } },
    ]);
  await check(cases, true);
});
