import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { UsageError } from '@mlx-runners/mlx-core/errors';
import {
  benchFileSchema,
  benchRow,
  benchTable,
  machineDescription,
  measureInTurns,
  median,
  writeBenchFile,
} from '@mlx-runners/runner';
import fc from 'fast-check';
import { afterAll, describe, expect, test } from 'vitest';

const folder = mkdtempSync(join(tmpdir(), 'bench-'));
afterAll(() => rmSync(folder, { recursive: true }));

const figures = { what: 'jfk', ours: 2, peer: 3, peerName: 'peer 1.0', unit: 's', goal: 1.2 };

test('the ratio says how many times better ours is', () => {
  expect(benchRow({ ...figures, better: 'lower' })).toEqual({ ...figures, ratio: 1.5 });
  expect(benchRow({ ...figures, better: 'higher' }).ratio).toBe(0.6667);
});

test('a bench file is written and fits its schema', async () => {
  const path = join(folder, 'results', 'jfk.json');
  const bench = {
    machine: machineDescription(),
    rows: [benchRow({ ...figures, better: 'lower' })],
  };
  await writeBenchFile(path, bench);
  expect(benchFileSchema.parse(JSON.parse(readFileSync(path, 'utf8')))).toEqual(bench);
  expect(readdirSync(join(folder, 'results'))).toEqual(['jfk.json']);
});

test('figures that are none are refused, and nothing is written', async () => {
  const path = join(folder, 'refused.json');
  for (const ours of [0, NaN, Infinity]) {
    const rows = [benchRow({ ...figures, ours, better: 'lower' })];
    const written = writeBenchFile(path, { machine: machineDescription(), rows });
    await expect(written).rejects.toThrow(UsageError);
  }
  await expect(writeBenchFile(path, { machine: machineDescription(), rows: [] })).rejects.toThrow();
  expect(readdirSync(folder)).not.toContain('refused.json');
});

test('the table is aligned and tells goals that were missed', () => {
  const rows = [
    benchRow({ ...figures, better: 'lower' }),
    benchRow({ ...figures, what: 'memory', unit: 'MB', ours: 512.4, peer: 400, better: 'lower' }),
    benchRow({ ...figures, what: 'words', unit: 'words/s', goal: null, better: 'higher' }),
  ];
  expect(benchTable(rows)).toMatchInlineSnapshot(`
    "what    ours       peer       peer is   ratio   goal
    jfk     2 s        3 s        peer 1.0  1.5x    1.2x met
    memory  512 MB     400 MB     peer 1.0  0.781x  1.2x missed
    words   2 words/s  3 words/s  peer 1.0  0.667x
    "
  `);
});

describe('measureInTurns', () => {
  test('runs A B A B, and gives the medians of what they return', async () => {
    const order: string[] = [];
    const contestant = (name: string, taken: number[]) => ({
      name,
      run: () => {
        order.push(name);
        return taken.shift()!;
      },
    });
    const measured = await measureInTurns(
      [contestant('a', [1, 9, 2]), contestant('b', [4, 5, 6])],
      3,
    );
    expect(order).toEqual(['a', 'b', 'a', 'b', 'a', 'b']);
    expect(measured.get('a')).toEqual({ median: 2, figures: [1, 9, 2] });
    expect(measured.get('b')).toEqual({ median: 5, figures: [4, 5, 6] });
  });

  test('a function that returns nothing is timed', async () => {
    const measured = await measureInTurns([{ name: 'a', run: () => undefined }], 1);
    expect(measured.get('a')!.median).toBeGreaterThanOrEqual(0);
  });

  test('programs are run, with their environment, and their output is parsed', async () => {
    const program = {
      name: 'a',
      command: [process.execPath, '-e', 'console.log(process.env.FIGURE)'] as const,
      env: { FIGURE: '7' },
      parse: Number,
    };
    expect((await measureInTurns([program], 2)).get('a')!.figures).toEqual([7, 7]);
  });

  test('a program that fails says why', async () => {
    const failing = [process.execPath, '-e', 'console.error("no model"); process.exit(3)'] as const;
    await expect(measureInTurns([{ name: 'peer', command: failing }], 1)).rejects.toThrow(
      'peer failed with exit code 3: no model',
    );
    const absent = { name: 'peer', command: [join(folder, 'absent')] as const };
    await expect(measureInTurns([absent], 1)).rejects.toThrow('peer could not be started');
  });

  test('output that is no figure fails', async () => {
    const program = { name: 'a', command: [process.execPath, '-e', ''] as const, parse: () => NaN };
    await expect(measureInTurns([program], 1)).rejects.toThrow('a gave NaN');
  });

  test('misuse', async () => {
    const a = { name: 'a', run: () => 1 };
    await expect(measureInTurns([a], 0)).rejects.toThrow(UsageError);
    await expect(measureInTurns([a, a], 1)).rejects.toThrow(UsageError);
  });
});

test('half of all values lie on either side of the median', () => {
  expect(median([3, 1, 2, 10])).toBe(2.5);
  expect(() => median([])).toThrow(UsageError);
  fc.assert(
    fc.property(fc.array(fc.integer(), { minLength: 1 }), (values) => {
      const middle = median(values);
      expect(values.filter((x) => x < middle).length).toBeLessThanOrEqual(values.length / 2);
      expect(values.filter((x) => x > middle).length).toBeLessThanOrEqual(values.length / 2);
    }),
  );
});
