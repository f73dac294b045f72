/** What a process holds, where Linux tells; elsewhere nothing is watched. */
import { existsSync, lstatSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';

const FILES = '/proc/self/fd';
const STATUS = '/proc/self/status';

/** Descriptors, by number. */
export function openDescriptors(): ReadonlySet<string> {
  const listed = existsSync(FILES) ? readdirSync(FILES) : [];
  // Listing takes a descriptor itself, whose number the next file gets.
  return new Set(listed.filter((each) => lstatSync(`${FILES}/${each}`, { throwIfNoEntry: false })));
}

/** The paths of files that were opened since and still are; pipes of the test runner come and go. */
export function filesOpenedSince(before: ReadonlySet<string>): string[] {
  const added = [...openDescriptors()].filter((descriptor) => !before.has(descriptor));
  return added.flatMap((descriptor) => {
    try {
      const path = readlinkSync(`${FILES}/${descriptor}`);
      return path.startsWith('/') && path !== '/dev/null' ? [path] : [];
    } catch {
      return []; // closed by now
    }
  });
}

/**
 * The largest address space there has been, in bytes. Memory that was asked for and never touched
 * counts, too: that is how a header of a few bytes that lies about a size shows.
 */
export function peakAddressSpace(): number | undefined {
  if (!existsSync(STATUS)) return undefined;
  const kilobytes = /^VmPeak:\s+(\d+)/m.exec(readFileSync(STATUS, 'latin1'))?.[1];
  return kilobytes === undefined ? undefined : Number(kilobytes) * 1024;
}
