import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { FileError } from '@mlx-runners/mlx-core/errors';
import {
  checkWritableFolder,
  writeWholeFile,
  writeWholeFileSync,
} from '@mlx-runners/mlx-core/whole-file';
import { build } from 'vite';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';

let folder: string;
let path: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'whole-file-'));
  path = join(folder, 'result.txt');
});
afterEach(() => rmSync(folder, { recursive: true }));

type Write = (path: string, content: string) => Promise<void> | void;

describe.each<[string, Write]>([
  ['writeWholeFile', writeWholeFile],
  [
    'writeWholeFileSync',
    (place, content) => writeWholeFileSync(place, (file) => void writeSync(file, content)),
  ],
])('%s', (_, write) => {
  const failure = async (place: string): Promise<unknown> => {
    try {
      await write(place, 'x');
    } catch (error) {
      return error;
    }
    return undefined;
  };

  test('makes folders, replaces what was there and leaves nothing else', async () => {
    const deep = join(folder, 'a', 'b', 'result.txt');
    await write(deep, 'older and longer');
    await write(deep, 'new');
    expect(readFileSync(deep, 'utf8')).toBe('new');
    expect(readdirSync(join(folder, 'a', 'b'))).toEqual(['result.txt']);
  });

  test('keeps the permissions of the file that it replaces', async () => {
    for (const mode of [0o600, 0o666]) {
      writeFileSync(path, 'old');
      chmodSync(path, mode);
      await write(path, 'new');
      expect(statSync(path).mode & 0o777).toBe(mode);
    }
  });

  test('writes where a link leads, and leaves the link', async () => {
    const link = join(folder, 'link');
    writeFileSync(path, 'old');
    symlinkSync(path, link);
    await write(link, 'new');
    expect(readFileSync(path, 'utf8')).toBe('new');
    expect(lstatSync(link).isSymbolicLink()).toBe(true);
  });

  test('takes any name that the file system takes', async () => {
    const long = join(folder, 'n'.repeat(255));
    await write(long, 'x');
    expect(readFileSync(long, 'utf8')).toBe('x');
  });

  test('says what is in the way', async () => {
    writeFileSync(path, 'a file');
    mkdirSync(join(folder, 'taken', 'inside'), { recursive: true });
    const inside = join(path, 'below', 'x.txt');
    const expected: [string, string][] = [
      [join(path, 'x.txt'), `${path} is a file where a folder is needed.`],
      [inside, `${path} is a file where a folder is needed.`],
      [join(folder, 'taken'), 'it is a folder, not a file.'],
      // A rename would put a file in the place of the device.
      ['/dev/null', 'it is a device or pipe, not a file.'],
      [join(folder, 'n'.repeat(256)), 'name too long (ENAMETOOLONG).'],
      ['/proc/none/x.txt', "its folder can't be made."],
    ];
    for (const [place, why] of expected) {
      const error = await failure(place);
      expect(error).toBeInstanceOf(FileError);
      expect((error as Error).message).toBe(`${place} can't be written: ${why}`);
    }
    expect(readFileSync(path, 'utf8')).toBe('a file');
    expect(readdirSync(folder).sort()).toEqual(['result.txt', 'taken']);
    expect(statSync('/dev/null').isCharacterDevice()).toBe(true);
  });
});

test('content that fails half-way leaves the old file and nothing else', async () => {
  writeFileSync(path, 'old');
  async function* failing() {
    yield 'half';
    await Promise.reject(new Error('the model was disposed'));
  }
  await expect(writeWholeFile(path, failing())).rejects.toThrow('the model was disposed');
  const broken = () => {
    throw new Error('no such tensor');
  };
  expect(() => writeWholeFileSync(path, broken)).toThrow('no such tensor');
  expect(readFileSync(path, 'utf8')).toBe('old');
  expect(readdirSync(folder)).toEqual(['result.txt']);
});

test('checkWritableFolder: a folder that could be made, and makes nothing', () => {
  checkWritableFolder(folder);
  checkWritableFolder(join(folder, 'new', 'deep'));
  expect(readdirSync(folder)).toEqual([]);
  writeFileSync(path, 'a file');
  expect(() => checkWritableFolder(path)).toThrow(
    new FileError(`${path} can't be written: it is a file where a folder is needed.`),
  );
  expect(() => checkWritableFolder(join(path, 'deep'))).toThrow(
    `${path} is a file where a folder is needed.`,
  );
});

describe('a process of its own', () => {
  /** Runs a module that imports `write` from the bundled writer. */
  async function runModule(
    text: string,
    limits = '',
  ): Promise<{ code: number | null; out: string }> {
    await build({
      configFile: false,
      logLevel: 'error',
      ssr: { noExternal: true },
      build: {
        ssr: join(import.meta.dirname, '../src/whole-file.ts'),
        outDir: join(folder, 'bundle'),
        target: 'es2022',
      },
    });
    const module = join(folder, 'bundle', 'main.mjs');
    writeFileSync(module, `import { writeWholeFile as write } from './whole-file.js';\n${text}`);
    writeFileSync(join(folder, 'bundle', 'package.json'), '{"type":"module"}');
    const { status, stdout } = spawnSync(
      'sh',
      ['-c', `${limits} exec "$0" "$1" "$2"`].concat(process.execPath, module, path),
      {
        encoding: 'utf8',
      },
    );
    rmSync(join(folder, 'bundle'), { recursive: true });
    return { code: status, out: stdout };
  }

  test('that exits while it writes leaves nothing', async () => {
    const ended = await runModule(`
      import { readdirSync } from 'node:fs';
      import { dirname } from 'node:path';
      async function* endless() {
        for (;;) yield 'more';
      }
      setTimeout(() => {
        console.log(readdirSync(dirname(process.argv[2])).some((name) => name.endsWith('.partial')));
        process.exit(7);
      }, 50);
      await write(process.argv[2], endless());
    `);
    expect(ended).toEqual({ code: 7, out: 'true\n' });
    expect(readdirSync(folder)).toEqual([]);
  });

  test('whose file grows too large keeps the old one', async () => {
    writeFileSync(path, 'old');
    const ended = await runModule(
      `await write(process.argv[2], Buffer.alloc(1e6)).catch(({ code, message }) => {
        console.log(code, message);
      });`,
      'ulimit -f 1;',
    );
    const why = 'it would be larger than the system allows.';
    expect(ended).toEqual({ code: 0, out: `FILE ${path} can't be written: ${why}\n` });
    expect(readFileSync(path, 'utf8')).toBe('old');
    expect(readdirSync(folder)).toEqual(['result.txt']);
  });
});
