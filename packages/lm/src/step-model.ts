/** A model that computes tokens of many sequences in one step, over one cache. */

/** As many sequences as a cell cache can tell apart. */
export const MAX_SEQUENCES = 63;

/** Sequences that may share cells of a cache; one cell holds the keys and values of one token. */
export interface CellSequences {
  readonly cells: number;
  readonly freeCells: number;
  /** A new, empty sequence. @throws UsageError when there are as many as there may be */
  open(): number;
  /** A new sequence that begins as another one, whose cells it shares. Throws as `open`. */
  fork(sequence: number, length: number): number;
  /** Ends a sequence; cells that no other one shares become free. */
  close(sequence: number): void;
}

/** Tokens one after another: of a sequence in the order of their positions, all of a step together. */
export interface StepInput {
  tokens: Int32Array;
  /** Of each token in its sequence. */
  positions: Int32Array;
  /** Whose each token is. */
  sequences: Int32Array;
  /** Indices of the tokens whose logits are wanted, at least one. */
  rows: Int32Array;
}

export interface StepModel {
  readonly cache: CellSequences;
  /** The most tokens of a sequence. */
  readonly contextLength: number;
  /** The most tokens of a step. */
  readonly maxBatchSize: number;
  /**
   * Computes the tokens, which their sequences have from then on. When it fails, none has any of them.
   *
   * @returns the logits of each of `rows`
   */
  step(input: StepInput, signal: AbortSignal): Promise<Float32Array[]>;
  dispose(): void;
}
