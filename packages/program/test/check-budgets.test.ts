import {
  checkExport,
  type CheckOptions,
  type ExportBudgets,
  type Finding,
  type Method,
  type TraceBudget,
} from '@mlx-runners/program';
import { ProgramError } from '@mlx-runners/mlx-core';
import { expect, test } from 'vitest';
import { exported, normal } from './models.js';

const weight = normal(1, [4, 4]).astype('float16');
const parameters = { weight };

const typed = (run: Method['run'], lengths = { min: 1, max: 20 }): Method => ({
  dimensions: { T: lengths },
  inputs: { x: { dtype: 'float16', shape: ['T', 4] } },
  run,
});

const plain = typed(({ x }) => ({ y: x.matmul(weight).add(x) }));

async function failures(
  methods: CheckOptions['methods'],
  budgets: ExportBudgets = {},
): Promise<Finding[]> {
  const folder = await exported(methods, parameters);
  return (await checkExport(folder, { methods, budgets })).filter(({ ok }) => !ok);
}

function failuresOf(method: Method, budget: TraceBudget = {}): Promise<Finding[]> {
  return failures({ run: method }, { methods: { run: { traces: [budget] } } });
}

test('too many instructions fail', async () => {
  expect(await failuresOf(plain, { instructions: 1 })).toEqual([
    { what: 'run: instructions', ok: false, found: '2, at most 1' },
  ]);
  expect(await failuresOf(plain, { instructions: 2 })).toEqual([]);
});

test('each trace has a budget of its own', async () => {
  const step = typed(({ x }) => ({ y: x.exp() }), { min: 1, max: 1 });
  const prompt = typed(({ x }) => ({ y: x.exp().sin() }), { min: 2, max: 20 });
  const budgets = (...traces: TraceBudget[]): ExportBudgets => ({ methods: { run: { traces } } });
  const methods = { run: [step, prompt] };
  const [one, two] = [{ instructions: 1 }, { instructions: 2 }];
  expect(await failures(methods, budgets(one, two))).toEqual([]);
  expect(await failures(methods, budgets(one, one))).toEqual([
    { what: 'run, trace 2: instructions', ok: false, found: '2, at most 1' },
  ]);
});

test('a cast beyond the budget fails', async () => {
  const cast = typed(({ x }) => ({ y: x.astype('float32').exp().astype('float16') }));
  expect(await failuresOf(cast)).toEqual([
    { what: 'run: astype', ok: false, found: '2, at most 0' },
  ]);
  expect(await failuresOf(cast, { ops: { astype: 2 } })).toEqual([]);
});

test('an unwanted upcast fails: float32 that comes of a float32 operand', async () => {
  const table = normal(2, [4]);
  const upcast = typed(({ x }) => ({ y: x.multiply(table).add(1) }));
  expect(await failuresOf(upcast)).toEqual([
    { what: 'run: upcasts', ok: false, found: '1, at most 0' },
  ]);
  expect(await failuresOf(upcast, { upcasts: 1 })).toEqual([]);
});

test('too many bytes fail', async () => {
  const budgets = { bytes: 100, methods: { run: { bytes: 10 } } };
  const failed = await failures({ run: plain }, budgets);
  expect(failed.map(({ what }) => what)).toEqual([
    'bytes of all files',
    'run: bytes of its program',
  ]);
});

test.each<[ExportBudgets['methods'], string]>([
  [{ rum: {} }, 'There is a budget for the method "rum", which does not exist: did you mean run?'],
  [{ run: { traces: [{}, {}] } }, 'The budget of run is for 2 traces; the method has 1.'],
  [
    { run: { traces: [{ ops: { AsType: 1 } }] } },
    'The budget of run is for the op "AsType", which does not exist: did you mean astype?',
  ],
])('budgets that can not be meant are refused: %j', async (methods, message) => {
  await expect(failures({ run: plain }, { methods })).rejects.toThrow(new ProgramError(message));
});
