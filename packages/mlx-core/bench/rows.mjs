/** Rows of results: what is printed of them, and the files that keep them. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { availableParallelism, cpus, totalmem } from 'node:os';
import { join } from 'node:path';

/**
 * @typedef {object} Measured
 * @property {string} what
 * @property {number} ours
 * @property {number} peer
 * @property {string} peerName
 * @property {string} unit
 * @property {'higher' | 'lower'} better which figures are
 * @property {number | null} goal of the ratio
 */

/** @typedef {Omit<Measured, 'better'> & { ratio: number }} Row `ratio`: how many times better ours is */

/** @returns {Row} of what was measured, which it prints */
export function row(/** @type {Measured} */ { better, ...measured }) {
  const { what, ours, peer, peerName, unit, goal } = measured;
  const ratio = better === 'lower' ? peer / ours : ours / peer;
  const reached = goal === null ? '' : ratio >= goal ? ' (met)' : ` (goal ${goal})`;
  console.log(`${what}: ${ours} ${unit}, ${peerName} ${peer}, ${ratio.toFixed(2)}x${reached}`);
  return { ...measured, ratio: Number(ratio.toPrecision(4)) };
}

/** Replaces `results/<name>.json`. */
export function writeResults(/** @type {string} */ name, /** @type {Row[]} */ rows) {
  const machine = {
    cpu: cpus()[0]?.model.trim() || 'unknown',
    cores: availableParallelism(),
    memoryGiB: Number((totalmem() / 2 ** 30).toFixed(1)),
    platform: `${process.platform} ${process.arch}`,
    node: process.version,
  };
  const folder = join(import.meta.dirname, 'results');
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, `${name}.json`), `${JSON.stringify({ machine, rows }, null, 2)}\n`);
}
