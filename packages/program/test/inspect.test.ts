import { mx } from '@mlx-runners/mlx-core';
import { formatReport, inspectExport, type Method } from '@mlx-runners/program';
import { expect, test } from 'vitest';
import { exported, normal } from './models.js';

test.each([
  [1, '4 bytes'],
  [249, '996 bytes'],
  [250, '1.00 kB'],
  [375, '1.50 kB'],
  [25_000, '100 kB'],
  [625_000, '2.50 MB'],
])('%i elements of float32 are %s', async (length, size) => {
  const weight = normal(1, [length]);
  const method: Method = {
    dimensions: { T: { min: 1, max: 2 } },
    inputs: { x: { dtype: 'float32', shape: ['T', 1] } },
    states: { kept: { dtype: 'float32', shape: [length] } },
    run: ({ x }, _, states) => {
      states.kept = states.kept.add(weight);
      return { y: mx.multiply(x, weight) };
    },
  };
  const report = formatReport(inspectExport(await exported({ run: method }, { weight })));
  expect(report).toContain(`\nweights float32 ${size}; states ${size}; all files `);
  expect(report).toMatch(/2 instructions, \d temporary slots, about [\d.]+ \w+ to [\d.]+ \w+\n/);
});
