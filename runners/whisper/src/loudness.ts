/**
 * What the level of the audio says about where there is speech.
 *
 * On silence and on even noise Whisper invents text, often with a high probability; its own
 * no-speech probability is high there, but high, too, on some speech that it can read. Speech rises
 * and falls by syllables, noise of fans, rooms and lines hardly at all: where both agree that there
 * is no speech, there is none. And where a recording is as good as silent before or after speech,
 * a segment's times are moved to where the sound is; Whisper likes to fill gaps. After a gap it
 * also ends segments early: one that nobody could speak so fast lasts as long as its sound.
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
const silenceDrop = 40;

/** Silence shorter than this, in frames of 10 ms, stays part of a segment. */
const shortSilence = 30;

/** Sound shorter than this between a segment's edge and silence is the end of its neighbour's. */
const stray = 5;

/** Characters a second that nobody speaks: such a segment ends too early. */
const tooFast = 25;

/** Characters a second of ordinary speech, the least that a segment is lengthened to. */
const ordinary = 15;

// Whisper's features are log10 of power, divided by 4.
const decibels = 40;

// Samples from one frame to the next, and on each side of its centre.
const hop = 160;
const framesPerSecond = 100;
const halfWindow = 200;

/** Levels in dB of frames of log-mel features [frames, mels], up to a constant. */
export async function frameLevels(features: MxArray): Promise<Float32Array> {
  using levels = mx.tidy(() => features.mean(1).multiply(decibels));
  return (await levels.data()) as Float32Array;
}

/**
 * RMS levels of mono samples in dBFS, one for each feature frame, over the 25 ms that it is centred
 * on. Unlike features they have no floor 80 dB below the loudest moment; digital zero is −200.
 */
export function frameVolumes(samples: Float32Array): Float32Array {
  return Float32Array.from({ length: Math.floor(samples.length / hop) }, (_, frame) => {
    const from = Math.max(0, frame * hop - halfWindow);
    const to = Math.min(samples.length, frame * hop + halfWindow);
    let power = 0;
    for (let i = from; i < to; i++) power += samples[i] * samples[i];
    return 10 * Math.log10(power / (to - from) + 1e-20);
  });
}

function percentile(sorted: Float32Array, share: number): number {
  return sorted[Math.floor(share * (sorted.length - 1))];
}

/** Whether the level hardly changes, as in silence and even noise. */
export function isSteady(levels: Float32Array, { start, end }: Span): boolean {
  const sorted = levels.slice(start, end).sort();
  return percentile(sorted, 0.95) - percentile(sorted, 0.05) < steadyRange;
}

/** Tells the silent frames of a window. */
function silenceIn(volumes: Float32Array, { start, end }: Span): (frame: number) => boolean {
  const loud = percentile(volumes.slice(start, end).sort(), 0.95);
  return (frame) => volumes[frame] < loud - silenceDrop;
}

/**
 * A segment without the silence at its ends; as it was when all of it is silent.
 *
 * @param volumes from `frameVolumes`
 * @param window the audio that the segment was decoded from
 */
export function trimSilence(volumes: Float32Array, segment: Span, window: Span): Span {
  const isSilent = silenceIn(volumes, window);
  const end = Math.min(segment.end, window.end);
  const silent = {
    start: silenceFrom(segment.start, 1, end, isSilent),
    end: silenceFrom(end - 1, -1, segment.start - 1, isSilent) + 1,
  };
  if (silent.start >= silent.end) return segment;
  return {
    start: silent.start - segment.start >= shortSilence ? silent.start : segment.start,
    end: end - silent.end >= shortSilence ? silent.end : segment.end,
  };
}

/** The first frame after silence that begins within a few frames of `edge`, going by `step`. */
function silenceFrom(
  edge: number,
  step: 1 | -1,
  limit: number,
  isSilent: (frame: number) => boolean,
): number {
  let frame = edge;
  while (frame !== limit && !isSilent(frame)) {
    frame += step;
    if (Math.abs(frame - edge) > stray) return edge;
  }
  while (frame !== limit && isSilent(frame)) frame += step;
  return frame;
}

/**
 * The end of a segment whose text can't have been spoken in its time: where the sound after it
 * pauses, or the text would be spoken at an ordinary pace, or at `limit`, whichever comes first.
 * Other segments end where they did.
 *
 * @param characters of the segment's text
 * @param limit where the next segment may start
 */
export function spokenEnd(
  volumes: Float32Array,
  { start, end }: Span,
  characters: number,
  limit: number,
  window: Span,
): number {
  if (characters * framesPerSecond <= tooFast * (end - start)) return end;
  const isSilent = silenceIn(volumes, window);
  const latest = Math.min(limit, start + Math.ceil((characters * framesPerSecond) / ordinary));
  let spoken = end;
  for (let frame = end; frame < latest && frame - spoken < shortSilence; frame++) {
    if (!isSilent(frame)) spoken = frame + 1;
  }
  return spoken;
}
