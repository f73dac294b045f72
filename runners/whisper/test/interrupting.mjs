/**
 * Loaded into a command line before its own code (`NODE_OPTIONS=--import=…`): the process sends itself the
 * signal INTERRUPT_WITH when it first looks for a file named INTERRUPT_AT.
 */
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';

const { INTERRUPT_AT, INTERRUPT_WITH } = process.env;
const { existsSync, readFileSync } = fs;
let sent = false;

function watch(path) {
  if (sent || !String(path).endsWith(`/${INTERRUPT_AT}`)) return;
  sent = true;
  process.kill(process.pid, INTERRUPT_WITH);
}

fs.existsSync = (path) => {
  watch(path);
  return existsSync(path);
};
fs.readFileSync = (path, ...rest) => {
  watch(path);
  return readFileSync(path, ...rest);
};
syncBuiltinESMExports();
