import { statSync } from 'node:fs';
import { CheckpointError } from './errors.js';

/**
 * To be asked before a file is opened: a pipe without a writer would block the process, and a device
 * may have no end. What a folder is refused with comes from the system.
 *
 * @throws CheckpointError for a pipe, socket or device; the system's error where nothing is there
 */
export function checkRegularFile(path: string): void {
  const stats = statSync(path);
  if (stats.isFile() || stats.isDirectory()) return;
  throw new CheckpointError(`${path} is not a file.`);
}
