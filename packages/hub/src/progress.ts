import { AbortedError } from '@mlx-runners/mlx-core/errors';

export interface DownloadProgress {
  /** A file of the model, or the registry package it is taken from. */
  file: string;
  /** How much of it is there. */
  bytes: number;
  totalBytes?: number;
}

export interface TransferOptions {
  signal?: AbortSignal | undefined;
  onProgress?: ((progress: DownloadProgress) => void) | undefined;
}

/** @throws AbortedError when the signal has fired */
export function throwIfAborted(signal: AbortSignal | undefined): void {
  if (signal?.aborted) throw new AbortedError(undefined, { cause: signal.reason });
}
