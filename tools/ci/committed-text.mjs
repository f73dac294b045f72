// Fails on what is true of one machine only and must not be committed: addresses of a package index in the lock
// file, and absolute paths of somebody's folders.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { trackedFiles } from './tracked-files.mjs';

const BINARY = /\.(safetensors|gguf|wav|flac|mp3|npz|png|ico|bin|model)$/;
/** A home folder with something in it, not one within another path or address. */
const HOME_PATH = /(?<![\w.:/~-])\/(?:home|Users)\/[\w.-]+\/|(?<![\w.:/~-])\/root\/[\w.-]+/;

const root = process.cwd();
const findings = trackedFiles(root)
  .filter((file) => !BINARY.test(file))
  .flatMap((file) => problems(file, readFileSync(join(root, file), 'utf8')));

for (const finding of findings) console.error(finding);
if (findings.length > 0) process.exitCode = 1;

function problems(/** @type {string} */ file, /** @type {string} */ text) {
  const isLock = file.endsWith('package-lock.json');
  return text.split('\n').flatMap((line, index) => {
    const at = `${file}:${index + 1}`;
    // npm writes `resolved` for links within the workspace too; those are relative.
    if (isLock && /"resolved": "\w+:/.test(line))
      return [`${at}: names a package index: ${line.trim()}`];
    const path = HOME_PATH.exec(line)?.[0] ?? (line.includes(`${root}/`) ? root : undefined);
    return path ? [`${at}: names a folder of one machine: ${path}`] : [];
  });
}
