import { afterEach, expect, test } from 'vitest';
import { makeClone } from './clone.mjs';

let clone;
afterEach(() => clone.remove());

/** The lines of the one message that names what is missing. */
function missing(programs, script = 'start') {
  clone = makeClone(programs);
  const { status, stdout, stderr } = clone.run(script);
  expect(status).toBe(1);
  expect(stdout).toBe('');
  expect(stderr.match(/this machine lacks/g)).toHaveLength(1);
  return stderr.split('\n').filter((line) => line.startsWith('  - '));
}

const NOTHING = { python3: undefined, cmake: undefined, make: undefined, 'c++': undefined };

test.each(['start', 'test'])('npm %s names all that is missing at once', (script) => {
  expect(missing(NOTHING, script)).toEqual([
    '  - Python 3 (python3), which fetches MLX',
    '  - CMake 3.24 or newer (cmake)',
    '  - Ninja or Make (ninja, make)',
    '  - a C++20 compiler (c++, g++, clang++)',
  ]);
});

test.each([
  ['Python', { python3: undefined }, 'Python 3 (python3), which fetches MLX'],
  ['pip', { python3: 'test "$1" != -m' }, 'pip for Python (python3 -m pip)'],
  ['CMake', { cmake: undefined }, 'CMake 3.24 or newer (cmake)'],
  [
    'a new enough CMake',
    { cmake: 'echo cmake version 3.16.3' },
    'CMake 3.24 or newer (the one installed is 3.16)',
  ],
  ['Make', { make: undefined }, 'Ninja or Make (ninja, make)'],
  ['a compiler', { 'c++': undefined }, 'a C++20 compiler (c++, g++, clang++)'],
  [
    'a new enough compiler',
    { 'c++': 'test "$1" = --version' },
    'a C++20 compiler (c++ does not compile C++20; GCC 11, Clang 14 or newer do)',
  ],
])('names %s where only that is missing', (_, programs, problem) => {
  expect(missing(programs)).toEqual([`  - ${problem}`]);
});

test.skipIf(process.platform !== 'linux')(
  'says how to install it with the package manager at hand',
  () => {
    clone = makeClone(NOTHING);
    expect(clone.run('start').stderr).toContain('sudo apt-get install -y python3');
  },
);

test('asks for nothing where the native build is up to date', async () => {
  clone = makeClone(NOTHING);
  await clone.markNativeBuilt();
  expect(clone.run('start').status).toBe(0);
  clone.write('packages/mlx-core/native/changed.cpp', '');
  expect(clone.run('start').status).toBe(1);
});
