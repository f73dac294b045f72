/**
 * Types of the JSON goldens. Their keys are written as in the files, which Python scripts made
 * (tools/goldens).
 */

/** One tokenizer and what the reference makes of 30 awkward strings. */
export interface TokenizerFixture {
  readonly tokenizer: string;
  readonly origin: string;
  readonly source: string;
  readonly cases: readonly TokenizerCase[];
}

export interface TokenizerCase {
  readonly text: string;
  /** Without the special tokens that the tokenizer adds around a text. */
  readonly ids: readonly number[];
  /** With them. */
  readonly ids_special: readonly number[];
  /** `ids` decoded, special tokens shown. */
  readonly decoded: string;
  /** `ids` decoded, special tokens skipped. */
  readonly decoded_skip: string;
}

/** Greedy transcriptions of real speech by a real checkpoint in fp32. */
export interface TranscriptionFixture {
  readonly model: string;
  /** SHA-256 of the recording's file. */
  readonly wav_sha256: string;
  readonly notes: string;
  readonly source: string;
  readonly cases: readonly TranscriptionCase[];
}

export interface TranscriptionCase {
  readonly case: { readonly name: string; readonly modes: readonly string[] };
  /** Number of 16 kHz samples, and the SHA-256 of their little-endian float32 bytes. */
  readonly samples: number;
  readonly samples_sha256: string;
  readonly no_timestamps: Transcription;
  readonly timestamps: Transcription & { readonly text_timestamps: string };
  readonly words: Transcription & {
    readonly text_timestamps: string;
    /** Seconds at which each token *ends*. */
    readonly token_timestamps: readonly number[];
    /** Text, start and end in seconds; grouped at leading spaces. */
    readonly words: readonly (readonly [text: string, start: number, end: number])[];
  };
  /** The likeliest first text tokens after the prompt without timestamps. */
  readonly top5_first_no_timestamps: readonly { readonly id: number; readonly logit: number }[];
  readonly language: { readonly id: number; readonly prob: number };
  readonly no_speech_prob: number;
  /** Mean of the encoder's output, and the first 8 values of its row 100. */
  readonly encoder_probe: { readonly mean: number; readonly row100: readonly number[] };
}

export interface Transcription {
  readonly ids: readonly number[];
  readonly text: string;
}
