/** Random programs with states against the same steps done eagerly: pipelined or not, aborted, profiled. */
import { mx, type MxArray } from '@mlx-runners/mlx-core';
import { AbortedError } from '@mlx-runners/mlx-core/errors';
import type { Arrays, Method } from '@mlx-runners/program';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { loaded, normal, numbers } from './models.js';

const shape = [4, 3];
const names = ['a', 'b', 'c'] as const;
type Name = (typeof names)[number];

/** Makes an array of this shape of what there is: the states, the input, and a constant. */
type Step = (at: (i: number) => MxArray, row: number) => MxArray;

const steps: Record<string, Step> = {
  add: (at) => at(0).add(at(1)),
  subtract: (at) => at(0).subtract(at(1)),
  halved: (at) => at(0).multiply(0.5),
  same: (at) => at(0),
  reshaped: (at) => at(0).reshape([12]).reshape(shape),
  turned: (at) => at(0).transpose([1, 0]).reshape(shape),
  reversed: (at) => at(0).flip(0),
  broadcast: (at) => at(0).slice([0, 0], [1, 3]).broadcastTo(shape),
  strided: (at) => at(0).asStrided(shape, [1, 4]),
  halves: (at) => mx.concatenate(at(0).split(2, 0).reverse(), 0),
  updated: (at, row) =>
    mx.sliceUpdate(at(0), at(1).slice([row, 0], [row + 1, 3]), [row, 0], [row + 1, 3]),
  column: (at, row) =>
    mx.sliceUpdate(at(0), at(1).slice([0, 1], [4, 2]), [0, row % 3], [4, (row % 3) + 1]),
};

const table = normal(3, shape);
mx.evalSync(table);

const step = fc.record({
  kind: fc.constantFrom(...Object.keys(steps)),
  operands: fc.array(fc.nat(20), { minLength: 2, maxLength: 2 }),
});
const program = fc.record({
  steps: fc.array(step, { minLength: 1, maxLength: 10 }),
  /** What becomes of each state, by numbers of steps from the last on; the state itself where it is undefined. */
  next: fc.array(fc.option(fc.nat(5), { nil: undefined }), { minLength: 3, maxLength: 3 }),
  outputs: fc.array(fc.nat(12), { minLength: 1, maxLength: 3 }),
  calls: fc.array(fc.constantFrom('plain', 'plain', 'profiled', 'aborted', 'awaited'), {
    minLength: 2,
    maxLength: 8,
  }),
});
type Program = typeof program extends fc.Arbitrary<infer T> ? T : never;

function methodOf({ steps: chosen, next, outputs }: Program): Method {
  const state = { dtype: 'float32', shape } as const;
  return {
    dimensions: { row: { min: 0, max: 3 } },
    inputs: { x: state },
    states: { a: state, b: state, c: state },
    run: ({ x }, { row }, states) => {
      const made = [x, ...names.map((name) => states[name]), table];
      for (const { kind, operands } of chosen) {
        made.push(steps[kind]((i) => made[operands[i] % made.length], row));
      }
      names.forEach((name, i) => {
        const back = next[i];
        if (back !== undefined) states[name] = made[made.length - 1 - (back % made.length)];
      });
      return Object.fromEntries(outputs.map((i) => [`y${i}`, made[i % made.length]]));
    },
  };
}

/** The steps done eagerly, each with arrays of its own. */
async function eagerly(method: Method, inputs: readonly MxArray[]): Promise<number[][][]> {
  const zeros = new Array<number>(12).fill(0);
  let states: Record<Name, number[]> = { a: zeros, b: zeros, c: zeros };
  const all: number[][][] = [];
  for (const [i, x] of inputs.entries()) {
    const arrays: Arrays = Object.fromEntries(
      names.map((name) => [name, mx.array(states[name], shape)]),
    );
    const outputs = method.run({ x }, { row: i % 4 }, arrays);
    all.push(await Promise.all(Object.values(outputs).map(numbers)));
    const values = await Promise.all(names.map((name) => numbers(arrays[name])));
    states = { a: values[0], b: values[1], c: values[2] };
  }
  return all;
}

test('states, outputs, inputs and constants never get into each other’s memory', async () => {
  let ran = 0;
  await fc.assert(
    fc.asyncProperty(program, async (random) => {
      const method = methodOf(random);
      const model = await loaded({ step: method }).catch(refusedForStaleStates);
      if (!model) return;
      const session = model.session();
      const inputs = random.calls.map((_, i) => normal(i, shape));
      mx.evalSync(...inputs);
      const before = await Promise.all(inputs.map(numbers));
      const kept = random.calls.map((kind) => kind !== 'aborted');
      const running: Promise<Arrays>[] = [];
      for (const [i, kind] of random.calls.entries()) {
        const at = kept.slice(0, i).filter(Boolean).length;
        if (kind === 'aborted') {
          const call = session.run(
            'step',
            { x: inputs[i], row: at % 4 },
            { signal: AbortSignal.abort() },
          );
          await expect(call).rejects.toThrow(AbortedError);
          continue;
        }
        const call = session.run(
          'step',
          { x: inputs[i], row: at % 4 },
          { profile: kind === 'profiled' },
        );
        running.push(call.then(({ outputs }) => outputs));
        if (kind === 'awaited') await call;
      }
      const outputs = await Promise.all(running);
      const found = await Promise.all(
        outputs.map((each) => Promise.all(Object.values(each).map(numbers))),
      );
      expect(found).toEqual(
        await eagerly(
          method,
          inputs.filter((_, i) => kept[i]),
        ),
      );
      expect(await Promise.all(inputs.map(numbers))).toEqual(before);
      ran += 1;
      session.dispose();
      model.dispose();
    }),
    { numRuns: 60, seed: 1 },
  );
  expect(ran).toBeGreaterThan(30);
});

/** A program that reads a state beside its update is refused, as it should be. */
function refusedForStaleStates(error: Error): undefined {
  expect(error.message).toMatch(/a state is used beside/);
}
