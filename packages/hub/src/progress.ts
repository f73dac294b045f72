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
