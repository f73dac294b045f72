import { spawnSync } from 'node:child_process';
import { isNativeBuildCurrent } from '../../../packages/mlx-core/scripts/build-stamp.mjs';

/**
 * What compiling the native addon needs and this machine lacks, all of it in one message with the remedy for this
 * platform; undefined when nothing is missing or nothing needs compiling.
 */
export function missingRequirements() {
  if (isNativeBuildCurrent()) return undefined;
  const missing = [pythonProblem(), cmakeProblem(), buildToolProblem(), compilerProblem()].filter(
    (problem) => problem !== undefined,
  );
  if (missing.length === 0) return undefined;
  return [
    'The native addon has to be compiled, and for that this machine lacks:',
    ...missing.map((problem) => `  - ${problem}`),
    'Remedy:',
    ...remedy().map((line) => `  ${line}`),
    'Then run the command again.',
  ].join('\n');
}

function pythonProblem() {
  if (output('python3', ['--version']) === undefined)
    return 'Python 3 (python3), which fetches MLX';
  if (output('python3', ['-m', 'pip', '--version']) === undefined)
    return 'pip for Python (python3 -m pip)';
  return undefined;
}

function cmakeProblem() {
  const version = /version (\d+)\.(\d+)/.exec(output('cmake', ['--version']) ?? '');
  if (!version) return 'CMake 3.24 or newer (cmake)';
  const [, major, minor] = version.map(Number);
  if (major > 3 || (major === 3 && minor >= 24)) return undefined;
  return `CMake 3.24 or newer (the one installed is ${major}.${minor})`;
}

function buildToolProblem() {
  const found = ['ninja', 'make'].some((tool) => output(tool, ['--version']) !== undefined);
  return found ? undefined : 'Ninja or Make (ninja, make)';
}

function compilerProblem() {
  const compilers = process.env.CXX ? [process.env.CXX] : ['c++', 'g++', 'clang++'];
  const found = compilers.filter((compiler) => output(compiler, ['--version']) !== undefined);
  if (found.length === 0) return `a C++20 compiler (${compilers.join(', ')})`;
  if (found.some(compilesCxx20)) return undefined;
  return `a C++20 compiler (${found[0]} does not compile C++20; GCC 11, Clang 14 or newer do)`;
}

function compilesCxx20(/** @type {string} */ compiler) {
  const source =
    '#include <concepts>\n#include <span>\ntemplate <std::integral T> T f(T x) { return x; }\n';
  return output(compiler, ['-std=c++20', '-fsyntax-only', '-x', 'c++', '-'], source) !== undefined;
}

/** What a program prints; undefined when it is not there or fails. */
function output(/** @type {string} */ program, /** @type {string[]} */ args, input = '') {
  const { status, stdout } = spawnSync(program, args, { input, encoding: 'utf8' });
  return status === 0 ? stdout : undefined;
}

/** The commands that install all requirements here. */
function remedy() {
  if (process.platform === 'darwin') return ['xcode-select --install', 'brew install cmake python'];
  if (process.platform !== 'linux')
    return ['mlx-runners builds on macOS (arm64) and Linux; on Windows use WSL.'];
  const managers = {
    'apt-get': 'sudo apt-get install -y python3 python3-pip cmake ninja-build g++',
    dnf: 'sudo dnf install -y python3 python3-pip cmake ninja-build gcc-c++',
    pacman: 'sudo pacman -S --needed python python-pip cmake ninja gcc',
    zypper: 'sudo zypper install -y python3 python3-pip cmake ninja gcc-c++',
  };
  const usable = Object.entries(managers).filter(
    ([manager]) => output(manager, ['--version']) !== undefined,
  );
  const install = usable.length > 0 ? [usable[0][1]] : Object.values(managers);
  return [...install, 'where the CMake is older than 3.24: python3 -m pip install --user cmake'];
}
