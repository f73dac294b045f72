/**
 * What the level of the audio says about where there is speech.
 *
 * On silence and on even noise Whisper invents text, often with a high probability; its own
 * no-speech probability is high there, but high, too, on some speech that it can read. Speech rises
 * and falls by syllables, noise of fans, rooms and lines hardly at all: where both agree that there
 * is no speech, there is none. And where a recording is as good as silent before or after speech,
 * a segment's times are moved to where the sound is; Whisper likes to fill gaps.
 */
import { mx, type MxArray } from '@mlx-runners/mlx-core';

/** Frames [start, end) of a recording. */
export interface Span {
  start: number;
  end: number;
}

/**
 * Level range in dB between the 5th and 95th percentile of frames below which sound is steady.
 * Measured: digital zero, hum and sines 0; white and pink noise 1.6 to 1.8; speech 23; speech in
 * white or pink noise of equal power 4.6 to 4.8, of a tenth of its power 9 to 10.
 */
const steadyRange = 3;

/** A frame this many dB below the loud ones of its window is silent; pauses in speech are louder. */
const silenceDrop = 35;

/** Silence shorter than this, in frames of 10 ms, stays part of a segment. */
const shortSilence = 30;

// Whisper's features are log10 of power, divided by 4.
const decibels = 40;

/** Levels in dB of frames of log-mel features [frames, mels], up to a constant. */
export async function frameLevels(features: MxArray): Promise<Float32Array> {
  using levels = mx.tidy(() => features.mean(1).multiply(decibels));
  return (await levels.data()) as Float32Array;
}

function percentile(sorted: Float32Array, share: number): number {
  return sorted[Math.floor(share * (sorted.length - 1))];
}

/** Whether the level hardly changes, as in silence and even noise. */
export function isSteady(levels: Float32Array, { start, end }: Span): boolean {
  const sorted = levels.slice(start, end).sort();
  return percentile(sorted, 0.95) - percentile(sorted, 0.05) < steadyRange;
}

/** A segment without the silence at its ends; as it was when all of it is silent. */
export function trimSilence(levels: Float32Array, segment: Span, window: Span): Span {
  const loud = percentile(levels.slice(window.start, window.end).sort(), 0.95);
  const isSilent = (frame: number): boolean => levels[frame] < loud - silenceDrop;
  let { start, end } = segment;
  end = Math.min(end, window.end);
  while (start < end && isSilent(start)) start++;
  while (end > start && isSilent(end - 1)) end--;
  if (start === end) return segment;
  return {
    start: start - segment.start >= shortSilence ? start : segment.start,
    end: segment.end - end >= shortSilence ? end : segment.end,
  };
}
