/**
 * Watches a process that fuzzes (src/fuzz/watchdog.ts): tells the case in which it crashed, and
 * kills it where one hangs. A process of its own, in plain JavaScript: it runs without a build.
 */
import { readFileSync, rmSync } from 'node:fs';
import { dirname } from 'node:path';
import { setInterval } from 'node:timers';

const [progress, pid, limitSeconds, label] = process.argv.slice(2);
const current = () => readFileSync(progress, 'utf8').trim();

let seen = '';
let since = Date.now();

setInterval(() => {
  const index = current();
  if (index !== seen) [seen, since] = [index, Date.now()];
  if (Date.now() - since < Number(limitSeconds) * 1000) return;
  process.kill(Number(pid), 'SIGKILL');
  end(`hung for ${limitSeconds} s`);
}, 1000);

// The watched process ends this one when all is well; its input ends first only with a crash.
process.stdin.resume().on('end', () => end('ended'));

/** @param {string} how the watched process has gone */
function end(how) {
  console.error(`The process that fuzzed ${how}: ${label} FUZZ_CASE=${current()}`);
  rmSync(dirname(progress), { recursive: true });
  process.exit(1);
}
