export interface DownloadProgress {
  /** What is being fetched: a file of the model, a registry package; or what is waited for. */
  file: string;
  /** How much of the whole model is there, what earlier runs fetched included. Never less than before. */
  bytes: number;
  /** Of all files wanted. */
  totalBytes: number;
}

export interface TransferOptions {
  signal?: AbortSignal | undefined;
  onProgress?: ((progress: DownloadProgress) => void) | undefined;
}

/** Reports progress through `totalBytes`; bytes that have to be fetched again don't make it go back. */
export function progressReporter(
  totalBytes: number,
  { onProgress }: TransferOptions,
): (file: string, bytes: number) => void {
  let most = 0;
  return (file, bytes) => {
    most = Math.max(most, Math.min(bytes, totalBytes));
    onProgress?.({ file, bytes: most, totalBytes });
  };
}
