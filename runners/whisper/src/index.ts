export { load, WhisperModel } from './pipeline.js';
export type { TranscribeOptions } from './options.js';
export type { Transcription } from './transcription.js';
export type { Task } from './tokens.js';
export type { LoadOptions } from '@mlx-runners/runner/library';
export type { DownloadProgress } from '@mlx-runners/hub';
export {
  formatTranscript,
  TRANSCRIPT_FORMATS,
  transcriptJson,
  writeOutputs,
} from '@mlx-runners/speech';
export type {
  AudioInput,
  AudioSamples,
  Segment,
  Transcript,
  TranscriptFormat,
  WriteOutputsOptions,
} from '@mlx-runners/speech';
export * from '@mlx-runners/runner/errors';
