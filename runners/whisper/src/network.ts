/** What decoding needs of a network: `Whisper` itself, or an export of one. */
import type { MxArray } from '@mlx-runners/mlx-core';
import type { WhisperConfig } from './config.js';
import type { Logits } from './logits.js';

export interface SpeechNetwork {
  readonly config: Pick<
    WhisperConfig,
    'vocab_size' | 'num_mel_bins' | 'max_source_positions' | 'max_target_positions'
  >;
  /** Log-mel features [1, 2 · max_source_positions, bands] → audio as the decoder reads it. */
  encode(features: MxArray): Promise<AudioWindow>;
  dispose(): void;
}

export interface AudioWindow extends Disposable {
  /** Begins a decoding of one sequence. One at a time. */
  decode(): Decoding;
}

export interface Decoding extends Disposable {
  /**
   * Continues the sequences.
   *
   * @param ids the next tokens of each, as many of one as of the others
   * @param positions among these, of which logits are wanted
   * @returns logits [vocabulary] for each position of the first sequence, then of the second …
   */
  step(ids: readonly (readonly number[])[], positions: readonly number[]): Promise<Logits[]>;
  /** Turns the one sequence into `count` equal ones. */
  repeat(count: number): Promise<void>;
}

/** The rows of logits [..., vocabulary]. */
export async function logitsOf(logits: MxArray): Promise<Logits[]> {
  const values = (await logits.data()) as Float32Array;
  const vocabulary = logits.shape.at(-1)!;
  return Array.from({ length: values.length / vocabulary }, (_, i) =>
    values.subarray(i * vocabulary, (i + 1) * vocabulary),
  );
}
