/** Computing arrays, and what the computation runs on. */
import { MxArray } from './array.js';
import { shown, typedError } from './call.js';
import { DtypeError, UsageError } from './errors.js';
import { withGarbageCollected } from './memory.js';
import { native, type BuildInfo, type EvaluationCounts } from './native.js';
import { recorder } from './recording.js';

export type Device = 'cpu' | 'gpu';

function idsOf(use: string, arrays: readonly unknown[]): Float64Array {
  return Float64Array.from(arrays, (array) => {
    if (array instanceof MxArray) return array.idFor(use);
    throw new DtypeError(`${use} takes arrays, each as an argument, not ${shown(array)}.`);
  });
}

function tellRecorder(use: string, arrays: readonly unknown[]): void {
  for (const array of arrays) if (array instanceof MxArray) recorder()?.reading(use, array);
}

/**
 * Computes arrays on a native thread; resolves when all values are there.
 *
 * @throws MemoryError when the results don't fit into memory; ProgramError, at once, inside a trace
 */
function evaluate(...arrays: MxArray[]): Promise<void> {
  tellRecorder('eval()', arrays);
  return evaluated(arrays);
}

async function evaluated(arrays: readonly MxArray[]): Promise<void> {
  try {
    await withGarbageCollected(() => native().evaluate(idsOf('eval()', arrays)));
  } catch (error) {
    throw typedError(error, 'eval()');
  }
}

export { evaluate as eval };

/** As `eval`, but blocks the event loop. */
export function evalSync(...arrays: MxArray[]): void {
  tellRecorder('evalSync()', arrays);
  try {
    native().evaluateSync(idsOf('evalSync()', arrays));
  } catch (error) {
    throw typedError(error, 'evalSync()');
  }
}

/**
 * Where this thread's arrays are computed from now on: by default on the GPU where MLX has one.
 *
 * @throws NativeError when there is no GPU
 */
export function setDevice(device: Device): void {
  if (device !== 'cpu' && device !== 'gpu') {
    throw new UsageError(`The device has to be 'cpu' or 'gpu', not ${shown(device)}.`);
  }
  try {
    native().useGpu(device === 'gpu');
  } catch (error) {
    throw typedError(error, `device ${device}`);
  }
}

export function device(): Device {
  return native().onGpu() ? 'gpu' : 'cpu';
}

/** Sets the number of threads that one CPU operation uses, for the whole process. */
export function setThreads(count: number): void {
  if (!Number.isInteger(count) || count < 1 || count > 1024) {
    throw new UsageError(
      `The number of threads has to be a whole number from 1 to 1024, not ${shown(count)}.`,
    );
  }
  native().useThreads(count);
}

/** The evaluations of all threads of this process, those off the event loop (`eval`, `data`, `item`). */
export function evaluations(): EvaluationCounts {
  return native().evaluations();
}

/** Versions and features of the loaded native library. */
export function buildInfo(): BuildInfo {
  return native().buildInfo();
}
