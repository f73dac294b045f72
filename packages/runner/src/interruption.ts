import { AbortedError } from '@mlx-runners/mlx-core/errors';

/**
 * What a command does on Ctrl+C: its work gets an abort signal and a moment to unwind; then what it
 * had begun to write is removed, and the process ends with 130 (143 on SIGTERM), as shells expect.
 */

const GRACE_MS = 3000;
/** What Ctrl+C ends a program with. */
export const EXIT_INTERRUPTED = 130;
const EXIT_CODES = { SIGINT: EXIT_INTERRUPTED, SIGTERM: 143 } as const;
type Signal = keyof typeof EXIT_CODES;

let controller = new AbortController();
const cleanups = new Set<() => void>();

/** Aborts when the user interrupts the program; pass it to every long call. */
export function interruptSignal(): AbortSignal {
  return controller.signal;
}

/**
 * Registers what must be undone if the program is stopped half-way, such as removing a file or
 * showing the cursor again. It must not be asynchronous. Returns how to take it back.
 */
export function onInterrupt(cleanup: () => void): () => void {
  cleanups.add(cleanup);
  return () => void cleanups.delete(cleanup);
}

/** Runs and forgets all clean-ups; one that fails doesn't keep the others from running. */
export function runCleanups(): void {
  for (const cleanup of cleanups) {
    cleanups.delete(cleanup);
    try {
      cleanup();
    } catch {
      // The program is going down: there is nothing better to do about it.
    }
  }
}

export interface InterruptHandling {
  /** The exit code of the signal that came, if one did. */
  exitCode(): number | undefined;
  /** To be called when the work has ended, however it did. */
  finish(): void;
}

/** Handles SIGINT and SIGTERM until `finish`. A second signal ends the process at once. */
export function handleInterrupts(): InterruptHandling {
  let received: Signal | undefined;
  let grace: NodeJS.Timeout | undefined;
  const stop = (signal: Signal) => {
    runCleanups();
    process.exit(EXIT_CODES[signal]);
  };
  const receive = (signal: Signal) => {
    if (received !== undefined) stop(signal);
    received = signal;
    grace = setTimeout(stop, GRACE_MS, signal);
    controller.abort(new AbortedError('Interrupted.'));
  };
  const signals = Object.keys(EXIT_CODES) as Signal[];
  for (const signal of signals) process.on(signal, receive);
  return {
    exitCode: () => received && EXIT_CODES[received],
    finish() {
      runCleanups();
      for (const signal of signals) process.off(signal, receive);
      // Still ends a process that something else keeps alive, but doesn't keep it alive itself.
      grace?.unref();
      if (received !== undefined) controller = new AbortController();
    },
  };
}
