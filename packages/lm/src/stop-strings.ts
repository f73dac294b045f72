import { UsageError } from '@mlx-runners/mlx-core/errors';

/** More than any API allows. */
const MOST_STOPS = 64;

/**
 * Looks for stop strings in a text that comes in pieces. What may be the beginning of one is held back, so that
 * no part of a stop string is ever put out; where the text is cut does not depend on the pieces.
 *
 * The first stop string to be complete counts; of those that end at the same place, the longest.
 */
export class StopStrings {
  private readonly stops: readonly string[];
  private held = '';

  /** @throws UsageError for stop strings that are empty, no strings, or too many */
  constructor(stops: readonly string[]) {
    if (!stops.every((stop) => typeof stop === 'string' && stop !== '')) {
      throw new UsageError('A stop string must be a text of at least one character.');
    }
    if (stops.length > MOST_STOPS) {
      throw new UsageError(`There may be ${MOST_STOPS} stop strings, not ${stops.length}.`);
    }
    this.stops = stops;
  }

  /**
   * @returns the text that is safe to put out; and the stop string that was found, after which nothing of the
   *   text counts
   */
  push(piece: string): { text: string; stop?: string } {
    const text = this.held + piece;
    const found = this.find(text);
    if (found) {
      this.held = '';
      return { text: text.slice(0, found.end - found.stop.length), stop: found.stop };
    }
    const held = this.beginningAtEnd(text);
    this.held = text.slice(text.length - held);
    return { text: text.slice(0, text.length - held) };
  }

  /** What is still held back, when no more text comes. */
  flush(): string {
    const { held } = this;
    this.held = '';
    return held;
  }

  private find(text: string): { stop: string; end: number } | undefined {
    let found: { stop: string; end: number } | undefined;
    for (const stop of this.stops) {
      const start = text.indexOf(stop);
      if (start < 0) continue;
      const end = start + stop.length;
      const isLonger = end === found?.end && stop.length > found.stop.length;
      if (!found || end < found.end || isLonger) found = { stop, end };
    }
    return found;
  }

  /** The length of the longest end of the text with which a stop string begins. */
  private beginningAtEnd(text: string): number {
    let longest = 0;
    for (const stop of this.stops) {
      for (let size = Math.min(stop.length - 1, text.length); size > longest; size--) {
        if (text.endsWith(stop.slice(0, size))) longest = size;
      }
    }
    return longest;
  }
}
