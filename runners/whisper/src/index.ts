export { load, WhisperModel } from './pipeline.js';
export type { LoadOptions } from '@mlx-runners/runner';
export type { TranscribeOptions } from './options.js';
export type { Transcription } from './transcription.js';
export type { Task } from './tokens.js';
