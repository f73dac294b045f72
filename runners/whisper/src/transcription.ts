/** A transcription under way, and what callers do with it. */
import { SharedIteration } from '@mlx-runners/mlx-core/shared-iteration';
import type { Segment, Transcript } from '@mlx-runners/speech';

/**
 * A transcription under way: iterate over it for segments as they come, or await `result()`, as
 * often as wanted and at the same time. It is computed once, from its first use on; every iteration
 * gives all segments, and a failure comes to everyone. Leaving a loop early stops the work, unless
 * someone else still waits for it.
 */
export interface Transcription extends AsyncIterable<Segment> {
  /** The whole transcript, once all audio is done. */
  result(): Promise<Transcript>;
}

/** What is known of a recording besides its segments. */
export interface RecordingInfo {
  /** Seconds. */
  duration: number;
  /** The language given, or detected in the first window with speech; null before and without one. */
  language: string | null;
}

export class RunningTranscription
  extends SharedIteration<Segment, RecordingInfo>
  implements Transcription
{
  constructor(work: AsyncGenerator<Segment, RecordingInfo>) {
    super(work, 'The transcription was stopped by leaving its loop early: start another one.');
  }

  async result(): Promise<Transcript> {
    const { parts, value } = await this.end();
    const segments = [...parts];
    const text = segments.map((segment) => segment.text).join('');
    return { text: text.trim(), ...value, segments };
  }
}
