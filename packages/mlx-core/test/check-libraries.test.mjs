import { cpSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { checkLibraries } from '../packaging/check-libraries.mjs';
import { machO } from './mach-o-file.mjs';

const native = join(import.meta.dirname, '../build/native');
const workspaceRoot = join(import.meta.dirname, '../../..');

let folder;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'mlx-core-libraries-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

/** What is wrong with the libraries in the folder. */
function problems(os, ...files) {
  try {
    checkLibraries(os, folder, files);
    return [];
  } catch (error) {
    return error.message.split('\n').slice(1);
  }
}

describe.runIf(process.platform === 'linux')('for Linux', () => {
  test('takes the build of the workspace', () => {
    cpSync(native, folder, { recursive: true });
    const files = readdirSync(folder).filter((file) => file !== 'build.json');
    expect(problems('linux', ...files)).toEqual([]);
  });

  test('names what a library needs and does not come along, and folders of this machine', () => {
    const addon = readFileSync(join(native, 'mlx_core.node'));
    const text = Buffer.from(`${workspaceRoot}/x GLIBC_2.99`);
    writeFileSync(join(folder, 'mlx_core.node'), Buffer.concat([addon, text]));
    expect(problems('linux', 'mlx_core.node')).toEqual(
      expect.arrayContaining([
        `- mlx_core.node contains the path ${workspaceRoot}`,
        '- mlx_core.node needs libmlx.so, which does not come along',
        '- mlx_core.node needs GLIBC_2.99: build on a system with GLIBC_2.35',
      ]),
    );
  });
});

describe('for macOS', () => {
  const addon = {
    needed: ['@rpath/libmlx.dylib', '/usr/lib/libSystem.B.dylib'],
    searchPath: ['@loader_path'],
    symbols: [
      ['_napi_throw', 0xfe],
      ['__ZSt9terminatev', 0xfe],
      ['_mmap', 2],
    ],
  };

  test.each([
    ['as it should be', {}, []],
    ['for Intel', { arch: 0x01000007 }, ['is for x86_64']],
    ['for a later macOS', { macos: 15 }, ['needs macOS 15.0']],
    ['unsigned', { signed: false }, ['has no code signature: macOS on arm64 refuses it']],
    [
      'with a search path',
      { searchPath: ['@loader_path', '/opt/lib'] },
      ['looks for libraries in /opt/lib'],
    ],
    ['without one', { searchPath: [] }, ['does not look beside itself']],
    [
      'with another library',
      { needed: [...addon.needed, '/opt/libx.dylib'] },
      ['needs /opt/libx.dylib, which does not come along'],
    ],
    ['with a symbol of nobody', { symbols: [['_cblas_x', 0xfe]] }, ['takes _cblas_x from nowhere']],
    [
      'with a symbol of a later macOS',
      { symbols: [['__ZNSt3__113__hash_memoryEPKvm', 0xfe]] },
      ['takes __ZNSt3__113__hash_memoryEPKvm, which macOS 14.0 does not have'],
    ],
  ])('an addon %s', (_, change, expected) => {
    writeFileSync(join(folder, 'libmlx.dylib'), machO({}));
    writeFileSync(join(folder, 'mlx_core.node'), machO({ ...addon, ...change }));
    expect(problems('darwin', 'libmlx.dylib', 'mlx_core.node')).toEqual(
      expected.map((problem) => `- mlx_core.node ${problem}`),
    );
  });

  test('a file that is no library is said to be none', () => {
    writeFileSync(join(folder, 'libmlx.dylib'), 'no library');
    expect(() => checkLibraries('darwin', folder, ['libmlx.dylib'])).toThrow(
      'is not a 64-bit Mach-O',
    );
  });
});
