export { load, WhisperModel, type LoadOptions, type Transcription } from './pipeline.js';
export type { TranscribeOptions } from './transcribe.js';
export type { Task } from './tokens.js';
