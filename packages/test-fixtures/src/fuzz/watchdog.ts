import { spawn } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** No case takes a tenth of a second. */
const LIMIT_SECONDS = 60;

// `dist/fuzz` and `src/fuzz` lie equally deep.
const WATCHDOG = fileURLToPath(new URL('../../watchdog.mjs', import.meta.url));

export interface Watchdog extends Disposable {
  /** Says which case comes next. */
  at(index: number): void;
}

/**
 * Starts a process that outlives this one where it crashes, and says which case it was; it kills
 * this one where a case takes longer than a minute.
 */
export function startWatchdog(label: string): Watchdog {
  const folder = mkdtempSync(join(tmpdir(), 'fuzz-'));
  const progress = join(folder, 'case');
  const file = openSync(progress, 'w');
  const args = [WATCHDOG, progress, String(process.pid), String(LIMIT_SECONDS), label];
  // Its input ends with this process.
  const child = spawn(process.execPath, args, { stdio: ['pipe', 'inherit', 'inherit'] });
  child.unref();
  return {
    // Written at once and not through a pipe: the event loop does not run while a case does.
    at: (index) => void writeSync(file, String(index).padEnd(12), 0),
    [Symbol.dispose]() {
      closeSync(file);
      child.kill();
      rmSync(folder, { recursive: true });
    },
  };
}
