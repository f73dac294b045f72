/** What SRT and WebVTT have in common: cues in order, with times and text that can't break a file. */
import type { Transcript } from '../transcript.js';

export interface Cue {
  /** Milliseconds, integers; `start` ≤ `end`, and no cue starts before the one above it. */
  start: number;
  end: number;
  /** Lines of text, none of them empty. */
  lines: string[];
}

/**
 * The cues of a transcript: segments with text. Times are kept as they are heard (a pause between
 * two cues stays a pause), except that they are made to lie within the audio and in order.
 */
export function cuesOf(transcript: Transcript): Cue[] {
  const cues: Cue[] = [];
  const last = transcript.duration > 0 ? milliseconds(transcript.duration) : Infinity;
  let earliest = 0;
  for (const segment of transcript.segments) {
    const lines = textLines(segment.text);
    if (lines.length === 0) continue;
    const start = Math.min(last, Math.max(earliest, milliseconds(segment.start)));
    const end = Math.min(last, Math.max(start, milliseconds(segment.end)));
    cues.push({ start, end, lines });
    earliest = start;
  }
  return cues;
}

/** Lines of a text without empty ones: a blank line would end a cue. */
export function textLines(text: string): string[] {
  return text
    .replaceAll('\0', '')
    .split(/[\r\n\v\f\u0085\u2028\u2029]+/)
    .map((line) => line.trim())
    .filter((line) => line !== '');
}

/** `HH:MM:SS` with milliseconds after `mark`; hours grow past two digits where needed. */
export function clock(time: number, mark: ',' | '.'): string {
  const two = (value: number) => String(Math.floor(value)).padStart(2, '0');
  const rest = String(time % 1000).padStart(3, '0');
  return `${two(time / 3_600_000)}:${two((time / 60_000) % 60)}:${two((time / 1000) % 60)}${mark}${rest}`;
}

// Rounded before it is cut into fields, so that no field ever reads 1000 or 60.
function milliseconds(seconds: number): number {
  return Number.isFinite(seconds) ? Math.max(0, Math.round(seconds * 1000)) : 0;
}
