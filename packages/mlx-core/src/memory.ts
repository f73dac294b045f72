/** How much memory arrays take, and may take. */
import { setImmediate } from 'node:timers/promises';
import { shown } from './call.js';
import { UsageError } from './errors.js';
import { native, type MemoryUsage } from './native.js';

/** Bytes and live arrays: those of the process, except `arrays`, which is of this thread. */
export function memory(): MemoryUsage {
  return native().memory();
}

/**
 * Sets how many bytes the arrays of this process, in all threads, may take together. What would
 * take more is a MemoryError instead of the end of the process. The start is 80 % of the memory
 * that the machine, or the control group (container), gives to the process; where MLX runs on a
 * GPU, it is MLX's own limit for that.
 */
export function setMemoryLimit(bytes: number): void {
  if (!Number.isSafeInteger(bytes) || bytes < 1) {
    throw new UsageError(
      `The memory limit has to be a whole number of bytes, not ${shown(bytes)}.`,
    );
  }
  native().setMemoryLimit(bytes);
}

/** Starts `memory().peak` anew. */
export function resetPeakMemory(): void {
  native().resetPeakMemory();
}

/** Gives buffers that MLX keeps for reuse back to the system. */
export function clearCache(): void {
  native().clearCache();
}

function isMemoryError(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'MEMORY';
}

/**
 * Runs an evaluation, and once more when there was no memory for it before unreachable arrays were
 * freed. Only what is awaited can do that, since they are freed by tasks of the event loop.
 * @internal
 */
export async function withGarbageCollected<T>(evaluation: () => Promise<T>): Promise<T> {
  try {
    return await evaluation();
  } catch (error) {
    if (!isMemoryError(error)) throw error;
  }
  native().collectGarbage();
  // One turn for the engine to find the finalizers' tasks, one for these to have run.
  await setImmediate();
  await setImmediate();
  return evaluation();
}
