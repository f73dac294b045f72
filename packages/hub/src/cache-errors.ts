import { FileError, HubError, systemReason } from '@mlx-runners/mlx-core/errors';

/**
 * Runs work that writes to a cache. What the system refuses (a full disk, a read-only folder)
 * becomes one HubError that names the folder and says what to do.
 *
 * @param variable name of the environment variable that chooses the folder
 */
export async function writingTo<T>(
  folder: string,
  variable: 'HF_HUB_CACHE' | 'MLX_RUNNERS_CACHE',
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const refusal = error instanceof FileError ? error.cause : error;
    if (!isSystemError(refusal)) throw error;
    const isFull = ['ENOSPC', 'EDQUOT', 'EFBIG'].includes(refusal.code ?? '');
    const reason =
      refusal.syscall === 'mkdir' && refusal.code === 'ENOENT'
        ? "its folder can't be made"
        : systemReason(refusal);
    const remedy = isFull
      ? `Free some space, or set ${variable} to a folder on another disk`
      : `Make it writable, or set ${variable} to a folder that is`;
    throw new HubError(`The cache ${folder} can't be written: ${reason}. ${remedy}.`, {
      cause: error,
    });
  }
}

function isSystemError(error: unknown): error is NodeJS.ErrnoException {
  return error instanceof Error && 'syscall' in error && 'code' in error;
}
