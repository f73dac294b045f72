import { readFileSync } from 'node:fs';

/** The most memory that this process held since it started, in bytes. */
export function peakBytes(): number {
  // What `resourceUsage` says includes, on Linux, the program that started this one.
  if (process.platform !== 'linux') return process.resourceUsage().maxRSS * 1024;
  const kilobytes = /^VmHWM:\s*(\d+)/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1];
  return Number(kilobytes) * 1024;
}
