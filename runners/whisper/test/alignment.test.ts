import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { dynamicTimeWarping, medianFilter } from '../src/alignment.js';

const matrix = fc
  .record({ rows: fc.integer({ min: 1, max: 6 }), columns: fc.integer({ min: 1, max: 8 }) })
  .chain(({ rows, columns }) =>
    fc
      .float64Array({
        minLength: rows * columns,
        maxLength: rows * columns,
        min: -5,
        max: 5,
        noNaN: true,
      })
      .map((values) => ({
        rows,
        columns,
        // Without equal sums: among those the reference takes a step that need not be the cheapest.
        values: values.map((value, i) => value + 0.01 * Math.sin(i + 1)),
      })),
  );

/** The cost of the cheapest monotonic path, by recursion. */
function cheapest(
  { rows, columns, values }: { rows: number; columns: number; values: Float64Array },
  row = rows - 1,
  column = columns - 1,
): number {
  if (row < 0 || column < 0) return row === -1 && column === -1 ? 0 : Infinity;
  const own = values[row * columns + column];
  const m = { rows, columns, values };
  return (
    own +
    Math.min(
      cheapest(m, row - 1, column - 1),
      cheapest(m, row - 1, column),
      cheapest(m, row, column - 1),
    )
  );
}

describe('dynamicTimeWarping', () => {
  it('finds a monotonic path of the least cost from corner to corner', () => {
    fc.assert(
      fc.property(matrix, (m) => {
        const path = dynamicTimeWarping(m);
        expect([path.rows[0], path.columns[0]]).toEqual([0, 0]);
        expect([path.rows.at(-1), path.columns.at(-1)]).toEqual([m.rows - 1, m.columns - 1]);
        let cost = 0;
        for (let i = 0; i < path.rows.length; i++) {
          cost += m.values[path.rows[i] * m.columns + path.columns[i]];
          if (i === 0) continue;
          const steps = [path.rows[i] - path.rows[i - 1], path.columns[i] - path.columns[i - 1]];
          expect(['0,1', '1,0', '1,1']).toContain(steps.join());
        }
        expect(cost).toBeCloseTo(cheapest(m), 8);
      }),
      { numRuns: 60 },
    );
  });
});

describe('medianFilter', () => {
  it('takes the median of each neighbourhood, mirrored at the ends', () => {
    const values = Float32Array.of(9, 1, 8, 2, 7);
    expect([...medianFilter({ rows: 1, columns: 5, values }, 3).values]).toEqual([1, 8, 2, 7, 2]);
  });

  it('leaves rows alone that are no longer than half its width', () => {
    const values = Float32Array.of(3, 1, 2);
    expect([...medianFilter({ rows: 1, columns: 3, values }, 7).values]).toEqual([3, 1, 2]);
  });
});
