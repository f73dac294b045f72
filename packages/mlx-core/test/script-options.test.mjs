import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';

/** A script that is stopped before it has built anything: what it can't be told must not start it. */
function run(name, ...args) {
  const script = join(import.meta.dirname, '../scripts', `${name}.mjs`);
  const { status, stdout, stderr } = spawnSync(process.execPath, [script, ...args], {
    encoding: 'utf8',
    timeout: 20_000,
  });
  return { status, stdout, stderr };
}

describe.each([
  ['build-native', 'none'],
  ['build-native-tests', '[--sanitize address,…] [--standalone]'],
  ['fetch-mlx', '[--platform linux-x64]'],
  ['format-native', '[--write]'],
  ['generate-ops', '[--check]'],
  ['test-neon', '[--scale 1] [--seed S]'],
  ['test-sanitized', '[--scale 5] [--seed S]'],
])('%s', (name, usage) => {
  test('--help prints its options', () => {
    expect(run(name, '--help')).toEqual({ status: 0, stdout: `Options: ${usage}\n`, stderr: '' });
  });

  test('an option that it does not know is an error', () => {
    const stderr = `Unknown option '--nonsense'\nOptions: ${usage}\n`;
    expect(run(name, '--nonsense')).toEqual({ status: 1, stdout: '', stderr });
  });
});

describe.each(['test-neon', 'test-sanitized'])('%s refuses', (name) => {
  test.each([
    ['--scale', 'abc', 'a number above 0'],
    ['--scale', '0', 'a number above 0'],
    ['--scale', 'Infinity', 'a number above 0'],
    ['--seed', '1.5', 'a whole number from 0 to 2^53 - 1'],
    ['--seed', 'x', 'a whole number from 0 to 2^53 - 1'],
    ['--seed', '9007199254740992', 'a whole number from 0 to 2^53 - 1'],
  ])('%s %s', (option, text, right) => {
    const stderr = `${option} has to be ${right}, not '${text}'.\n`;
    expect(run(name, option, text)).toEqual({ status: 1, stdout: '', stderr });
  });
});
