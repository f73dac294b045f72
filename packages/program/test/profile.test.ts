import { mx } from '@mlx-runners/mlx-core';
import { ProfileSummary, type Method, type SessionProfile } from '@mlx-runners/program';
import { expect, test } from 'vitest';
import { loaded, normal } from './models.js';

const profile = (wallSeconds: number, ...seconds: number[]): SessionProfile => ({
  seconds: wallSeconds,
  wallSeconds,
  ops: seconds.map((each, i) => ({
    op: ['linear', 'add'][i],
    count: 2,
    seconds: each,
    bytes: 3e6,
  })),
});

test('calls are summed up by method and trace, medians of times, the slowest op first', () => {
  const summary = new ProfileSummary();
  summary.add('decode', profile(0.01, 0.002, 0.006));
  summary.add('decode', profile(0.03, 0.004, 0.008));
  summary.add('decode', profile(0.02, 0.003, 0.007));
  summary.add('decode', profile(0.05, 0.05));
  expect(summary.format())
    .toBe(`decode, 4 instructions: 3 × 20.000 ms each, 10.000 ms of it beside ops (medians)
  op      count     ms  share    MB
  add         2  7.000   70 %  3.00
  linear      2  3.000   30 %  3.00
decode, 2 instructions: 1 × 50.000 ms each, 0.000 ms of it beside ops (medians)
  op      count      ms  share    MB
  linear      2  50.000  100 %  3.00
`);
});

test('a call that is profiled says how long each op and the whole took', async () => {
  const weight = normal(1, [64, 64]);
  const method: Method = {
    inputs: { x: { dtype: 'float32', shape: [64, 64] } },
    run: ({ x }) => ({ y: mx.linear(mx.linear(x, weight), weight).exp() }),
  };
  const model = await loaded({ run: method }, { weight });
  using session = model.session();
  const { profile: found } = await session.run(
    'run',
    { x: normal(2, [64, 64]) },
    { profile: true },
  );
  expect(found!.ops.map(({ op, count }) => [op, count])).toEqual([
    ['linear', 2],
    ['exp', 1],
  ]);
  const inOps = found!.ops.reduce((sum, { seconds }) => sum + seconds, 0);
  expect(inOps).toBeGreaterThan(0);
  expect(found!.seconds).toBeGreaterThan(inOps);
  expect(found!.wallSeconds).toBeGreaterThan(found!.seconds);
});
