import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';

/** The files of the working folder that are or would be committed, relative to it. */
export function trackedFiles(/** @type {string} */ root) {
  const list = ['ls-files', '-z', '--cached', '--others', '--exclude-standard'];
  return execFileSync('git', list, { cwd: root, encoding: 'utf8', maxBuffer: 2 ** 28 })
    .split('\0')
    .filter((file) => file !== '' && existsSync(join(root, file)))
    .sort();
}
