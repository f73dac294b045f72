import { UsageError } from '@mlx-runners/mlx-core/errors';
import { StopStrings } from '@mlx-runners/lm';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';

/** All that is put out for a text in pieces, and the stop string that ended it. */
function streamed(pieces: readonly string[], stops: readonly string[]) {
  const matcher = new StopStrings(stops);
  const texts: string[] = [];
  for (const piece of pieces) {
    const { text, stop } = matcher.push(piece);
    texts.push(text);
    if (stop !== undefined) return { texts, stop };
  }
  return { texts: [...texts, matcher.flush()], stop: undefined };
}

/** The first stop string to be complete, found by trying every end. */
function expected(text: string, stops: readonly string[]) {
  for (let end = 1; end <= text.length; end++) {
    const complete = stops.filter((stop) => text.slice(0, end).endsWith(stop));
    if (complete.length === 0) continue;
    const stop = complete.reduce((a, b) => (b.length > a.length ? b : a));
    return { text: text.slice(0, end - stop.length), stop };
  }
  return { text, stop: undefined };
}

describe('StopStrings', () => {
  // Few letters, so that there are matches and beginnings of them everywhere.
  const letters = fc.string({ unit: fc.constantFrom('a', 'b', 'é', '👍', '👎'), maxLength: 12 });
  const stops = fc.array(
    letters.filter((stop) => stop !== '' && stop.length < 8),
    { maxLength: 4 },
  );

  it('cuts at the first stop string to be complete, whatever the pieces', () => {
    fc.assert(
      fc.property(fc.array(letters, { maxLength: 8 }), stops, (pieces, stops) => {
        const { texts, stop } = streamed(pieces, stops);
        const reference = expected(pieces.join(''), stops);
        expect({ text: texts.join(''), stop }).toEqual(reference);
      }),
      { seed: 3, numRuns: 3000 },
    );
  });

  it('never puts out what may become a stop string', () => {
    fc.assert(
      fc.property(fc.array(letters, { maxLength: 8 }), stops, (pieces, stops) => {
        const matcher = new StopStrings(stops);
        let given = '';
        let put = '';
        for (const piece of pieces) {
          const { text, stop } = matcher.push(piece);
          put += text;
          given += piece;
          if (stop !== undefined) break;
          // What is put out and what is held back are the text.
          expect(given.startsWith(put)).toBe(true);
          const held = given.slice(put.length);
          for (const other of stops) {
            expect(put.includes(other)).toBe(false);
            for (let size = other.length - 1; size > held.length; size--) {
              expect(given.endsWith(other.slice(0, size))).toBe(false);
            }
          }
          // No more is held back than a stop string could begin with.
          expect(held === '' || stops.some((other) => other.startsWith(held))).toBe(true);
        }
      }),
      { seed: 4, numRuns: 1000 },
    );
  });

  it('finds one that comes in two pieces', () => {
    const { texts, stop } = streamed([' alpha', ' be', 'ta gam', 'ma delta'], ['beta gamma']);
    expect(texts).toEqual([' alpha', ' ', '', '']);
    expect(stop).toBe('beta gamma');
  });

  it('puts out at once what can begin none', () => {
    expect(new StopStrings(['xyz']).push('abc')).toEqual({ text: 'abc' });
    expect(new StopStrings([]).push('abc')).toEqual({ text: 'abc' });
  });

  it('can start anew', () => {
    const matcher = new StopStrings(['stop']);
    expect(matcher.push('a st')).toEqual({ text: 'a ' });
    expect(matcher.flush()).toBe('st');
    expect(matcher.push('op')).toEqual({ text: 'op' });
  });

  it('takes characters of two UTF-16 units whole', () => {
    expect(streamed(['👎👍', '!'], ['👍?']).texts).toEqual(['👎', '👍!', '']);
  });

  it.each([[['']], [['a', 7]], [Array(65).fill('x')]])('refuses %j', (stops) => {
    expect(() => new StopStrings(stops as string[])).toThrow(UsageError);
  });
});
