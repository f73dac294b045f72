import { UsageError } from '@mlx-runners/mlx-core/errors';
import { Scheduler, type SessionStep } from '@mlx-runners/lm';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';

function step(id: number, session: number, count: number): SessionStep {
  return { id, session, tokens: Array.from({ length: count }, (_, i) => i) };
}

const ids = (steps: readonly SessionStep[]): number[] => steps.map(({ id }) => id);
const size = (steps: readonly SessionStep[]): number =>
  steps.reduce((sum, { tokens }) => sum + tokens.length, 0);

describe('Scheduler', () => {
  it('has batches of two chunks and all single tokens', () => {
    expect(new Scheduler()).toMatchObject({
      maxDecodeSequences: 32,
      maxPrefillChunk: 256,
      maxBatchSize: 544,
    });
  });

  it.each([
    { maxDecodeSequences: 0 },
    { maxPrefillChunk: 0 },
    { maxPrefillChunk: 1.5 },
    { maxDecodeSequences: NaN },
    { maxPrefillChunk: 2 ** 30 },
    { maxDecodeSequences: 2 ** 31 - 1 },
  ])('refuses %o', (options) => {
    expect(() => new Scheduler(options)).toThrow(UsageError);
  });

  it('allows the largest batch that there may be', () => {
    const options = { maxPrefillChunk: 2 ** 30 - 1, maxDecodeSequences: 1 };
    expect(new Scheduler(options).maxBatchSize).toBe(2 ** 31 - 1);
  });

  it('takes no steps without tokens, with more than a chunk, or with an id that waits', () => {
    const scheduler = new Scheduler({ maxPrefillChunk: 4 });
    expect(scheduler.submit(step(1, 1, 0))).toBe(false);
    expect(scheduler.submit(step(1, 1, 5))).toBe(false);
    expect(scheduler.pending(1)).toBe(false);
    expect(scheduler.submit(step(1, 1, 4))).toBe(true);
    expect(scheduler.submit(step(1, 2, 1))).toBe(false);
    expect(scheduler.getWork()).toEqual([step(1, 1, 4)]);
    expect(scheduler.submit(step(1, 2, 1))).toBe(true);
  });

  it('gives nothing when nothing waits', () => {
    expect(new Scheduler().getWork()).toEqual([]);
  });

  it('lists single tokens first, in their order, up to the limit', () => {
    const scheduler = new Scheduler({ maxDecodeSequences: 2, maxPrefillChunk: 4 });
    scheduler.submit(step(1, 1, 3));
    for (const id of [2, 3, 4]) scheduler.submit(step(id, id, 1));
    expect(ids(scheduler.getWork())).toEqual([2, 3, 1]);
    expect(ids(scheduler.getWork())).toEqual([4]);
  });

  it('takes a chunk of each session in turn, and again until the batch is full', () => {
    const scheduler = new Scheduler({ maxDecodeSequences: 2, maxPrefillChunk: 4 });
    for (const id of [10, 11, 12]) scheduler.submit(step(id, 1, 2));
    for (const id of [20, 21, 22]) scheduler.submit(step(id, 2, 2));
    expect(ids(scheduler.getWork())).toEqual([10, 20, 11, 21, 12]);
    expect(ids(scheduler.getWork())).toEqual([22]);
  });

  it('goes on with the session whose turn it is', () => {
    const scheduler = new Scheduler({ maxDecodeSequences: 1, maxPrefillChunk: 2 });
    for (const session of [1, 2, 3]) {
      for (const i of [0, 1]) scheduler.submit(step(10 * session + i, session, 2));
    }
    expect(ids(scheduler.getWork())).toEqual([10, 20]);
    expect(ids(scheduler.getWork())).toEqual([30, 11]);
    expect(ids(scheduler.getWork())).toEqual([21, 31]);
  });

  it('lets small chunks go before a large one only once', () => {
    const scheduler = new Scheduler({ maxDecodeSequences: 1, maxPrefillChunk: 4 });
    scheduler.submit(step(10, 1, 4));
    scheduler.submit(step(20, 2, 3));
    scheduler.submit(step(30, 3, 4));
    for (const id of [40, 41, 42]) scheduler.submit(step(id, 4, 2));
    expect(ids(scheduler.getWork())).toEqual([10, 20, 40]);
    expect(ids(scheduler.getWork())).toEqual([30, 41, 42]);
  });

  it("keeps the order of a session's steps", () => {
    const scheduler = new Scheduler({ maxDecodeSequences: 1, maxPrefillChunk: 4 });
    scheduler.submit(step(1, 1, 4));
    scheduler.submit(step(2, 1, 1));
    expect(ids(scheduler.getWork())).toEqual([1, 2]);
    for (const session of [2, 3]) scheduler.submit(step(session, session, 1));
    scheduler.submit(step(4, 3, 2));
    expect(ids(scheduler.getWork())).toEqual([2]);
    expect(ids(scheduler.getWork())).toEqual([3, 4]);
  });

  it('cancels only steps that wait', () => {
    const scheduler = new Scheduler({ maxPrefillChunk: 4 });
    scheduler.submit(step(1, 1, 1));
    scheduler.submit(step(2, 2, 4));
    scheduler.submit(step(3, 2, 4));
    scheduler.cancel(1);
    scheduler.cancel(2);
    scheduler.cancel(99);
    expect([1, 2, 3].map((id) => scheduler.pending(id))).toEqual([false, false, true]);
    expect(ids(scheduler.getWork())).toEqual([3]);
    scheduler.cancel(3);
    expect(scheduler.getWork()).toEqual([]);
  });

  it('forgets everything', () => {
    const scheduler = new Scheduler();
    scheduler.submit(step(1, 1, 1));
    scheduler.submit(step(2, 2, 9));
    scheduler.clear();
    expect(scheduler.pending(1) || scheduler.pending(2)).toBe(false);
    expect(scheduler.getWork()).toEqual([]);
    expect(scheduler.submit(step(1, 1, 1))).toBe(true);
  });
});

describe('Scheduler, whatever comes', () => {
  const sizes = fc.record({
    maxDecodeSequences: fc.integer({ min: 1, max: 5 }),
    maxPrefillChunk: fc.integer({ min: 1, max: 8 }),
  });
  const action = fc.oneof(
    { weight: 6, arbitrary: fc.tuple(fc.nat(6), fc.integer({ min: 1, max: 8 })) },
    { weight: 2, arbitrary: fc.constant('work' as const) },
    { weight: 1, arbitrary: fc.nat(40) },
  );
  const settings = { seed: 7, numRuns: 200 };

  it('never has more than fits, loses nothing, and keeps the order of each session', () => {
    fc.assert(
      fc.property(sizes, fc.array(action, { maxLength: 60 }), (options, actions) => {
        const scheduler = new Scheduler(options);
        const waiting: SessionStep[] = [];
        let id = 0;
        const work = (): void => {
          const batch = scheduler.getWork();
          expect(size(batch)).toBeLessThanOrEqual(scheduler.maxBatchSize);
          expect(batch.length > 0).toBe(waiting.length > 0);
          for (const taken of batch) {
            const first = waiting.find(({ session }) => session === taken.session);
            expect(first).toBe(taken);
            waiting.splice(waiting.indexOf(taken), 1);
            expect(scheduler.pending(taken.id)).toBe(false);
          }
        };
        for (const each of actions) {
          if (each === 'work') {
            work();
          } else if (typeof each === 'number') {
            scheduler.cancel(each);
            const index = waiting.findIndex((step) => step.id === each);
            if (index >= 0) waiting.splice(index, 1);
          } else {
            const [session, count] = each;
            const submitted = step(id++, session, count);
            if (scheduler.submit(submitted)) waiting.push(submitted);
          }
        }
        while (waiting.length > 0) work();
        expect(scheduler.getWork()).toEqual([]);
      }),
      settings,
    );
  });

  it('lets no session starve, however busy the others are', () => {
    const counts = fc.array(fc.integer({ min: 1, max: 8 }), { minLength: 1, maxLength: 6 });
    fc.assert(
      fc.property(sizes, counts, ({ maxDecodeSequences, maxPrefillChunk }, counts) => {
        const scheduler = new Scheduler({ maxDecodeSequences, maxPrefillChunk });
        const lengths = counts.map((count) => Math.min(count, maxPrefillChunk));
        let id = 0;
        const waits = lengths.map(() => 0);
        const submit = (session: number): boolean =>
          scheduler.submit(step(id++, session, lengths[session]));
        for (const session of lengths.keys()) submit(session);
        for (let batch = 0; batch < 30; batch++) {
          const taken = scheduler.getWork().map(({ session }) => session);
          for (const session of lengths.keys()) {
            waits[session] = taken.includes(session) ? 0 : waits[session] + 1;
          }
          expect(Math.max(...waits)).toBeLessThan(lengths.length);
          for (const session of taken) submit(session);
        }
      }),
      settings,
    );
  });

  it('serves sessions with equal chunks equally often', () => {
    fc.assert(
      fc.property(
        sizes,
        fc.integer({ min: 2, max: 7 }),
        fc.integer({ min: 1, max: 20 }),
        ({ maxDecodeSequences, maxPrefillChunk }, sessions, batches) => {
          const chunk = maxPrefillChunk + 1;
          const scheduler = new Scheduler({ maxDecodeSequences, maxPrefillChunk: chunk });
          for (let id = 0; id < sessions * 50; id++) {
            scheduler.submit(step(id, id % sessions, chunk));
          }
          const served = Array.from({ length: sessions }, () => 0);
          for (let batch = 0; batch < batches; batch++) {
            for (const { session } of scheduler.getWork()) served[session]++;
          }
          expect(Math.max(...served) - Math.min(...served)).toBeLessThanOrEqual(1);
        },
      ),
      settings,
    );
  });
});
