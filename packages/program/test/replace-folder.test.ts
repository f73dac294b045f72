import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { FileError, mx, ProgramError } from '@mlx-runners/mlx-core';
import { exportModel, loadExport, type Method } from '@mlx-runners/program';
import { afterAll, expect, test } from 'vitest';
import { editManifest } from './edits.js';
import { installedPackages } from './installed.js';
import { scratchFolder } from './models.js';

const installed = installedPackages();
afterAll(() => installed.remove());

const method: Method = {
  inputs: { x: { dtype: 'float32', shape: [2] } },
  run: ({ x }) => ({ y: x.add(1) }),
};

function exporting(
  folder: string,
  id: string,
  run: Method | readonly Method[] = method,
): Promise<unknown> {
  return exportModel(folder, {
    model: { id },
    dtype: 'float32',
    methods: { run },
    parameters: new Map(),
  });
}

const idOf = (folder: string): string => loadExport(folder).manifest.model.id;

test('an export replaces an earlier one, also of another version', async () => {
  const folder = join(scratchFolder(), 'model');
  await exporting(folder, 'first');
  await exporting(`${folder}/`, 'second');
  expect(idOf(folder)).toBe('second');
  editManifest(folder, (manifest) => Object.assign(manifest, { formatVersion: 2 }));
  await exporting(folder, 'third');
  expect(idOf(folder)).toBe('third');
  expect(readdirSync(join(folder, '..'))).toEqual(['model']);
});

test('an empty folder is filled', async () => {
  const folder = scratchFolder();
  await exporting(folder, 'first');
  expect(idOf(folder)).toBe('first');
});

const notReplaced: [string, (folder: string) => void, RegExp][] = [
  [
    'files of a user beside the exported ones',
    (folder) => {
      mkdirSync(join(folder, 'notes'));
      writeFileSync(join(folder, 'notes/README.md'), 'mine');
    },
    /model can't be replaced: "notes\/README\.md" in it is no file of the earlier export\.$/,
  ],
  [
    'links of a user',
    (folder) => symlinkSync('/', join(folder, 'link')),
    /"link" in it is no file of the earlier export/,
  ],
  [
    'a folder without a manifest',
    (folder) => rmSync(join(folder, 'manifest.json')),
    /model can't be replaced: it is no exported model\.$/,
  ],
  [
    'a folder with a manifest of something else',
    (folder) => writeFileSync(join(folder, 'manifest.json'), '{"name": "app"}'),
    /it is no exported model/,
  ],
];

const listed = (folder: string): string[] =>
  readdirSync(folder).flatMap((name) =>
    name === 'notes' ? readdirSync(join(folder, name)).map((each) => `notes/${each}`) : [name],
  );

test.each(notReplaced)('%s are kept, and the export is refused', async (_, change, message) => {
  const folder = join(scratchFolder(), 'model');
  await exporting(folder, 'first');
  change(folder);
  const before = listed(folder);
  // Before anything is traced.
  const again = exporting(folder, 'second', {
    ...method,
    run: () => {
      throw new Error('traced');
    },
  });
  await expect(again).rejects.toThrow(FileError);
  await expect(again).rejects.toThrow(message);
  expect(listed(folder)).toEqual(before);
  expect(readdirSync(join(folder, '..'))).toEqual(['model']);
});

test('a file that is put there meanwhile is kept, too', async () => {
  const folder = join(scratchFolder(), 'model');
  await exporting(folder, 'first');
  const again = exporting(folder, 'second', {
    ...method,
    run: ({ x }) => {
      writeFileSync(join(folder, 'mine.txt'), 'mine');
      return { y: x.add(1) };
    },
  });
  await expect(again).rejects.toThrow(/"mine\.txt" in it is no file of the earlier export/);
  expect(readFileSync(join(folder, 'mine.txt'), 'utf8')).toBe('mine');
  expect(idOf(folder)).toBe('first');
  expect(readdirSync(join(folder, '..'))).toEqual(['model']);
});

test('a link to a folder stays one', async () => {
  const scratch = scratchFolder();
  const [folder, link] = [join(scratch, 'model'), join(scratch, 'link')];
  await exporting(folder, 'first');
  symlinkSync('model', link);
  await exporting(link, 'second');
  expect(idOf(folder)).toBe('second');
  expect(lstatSync(link).isSymbolicLink()).toBe(true);
  expect(readdirSync(scratch).sort()).toEqual(['link', 'model']);
});

test('a link to nothing and a file are no folders', async () => {
  const scratch = scratchFolder();
  const [link, file] = [join(scratch, 'link'), join(scratch, 'file')];
  symlinkSync('missing', link);
  writeFileSync(file, 'text');
  await expect(exporting(link, 'm')).rejects.toThrow(FileError);
  await expect(exporting(link, 'm')).rejects.toThrow(/it is a link to what is not there/);
  await expect(exporting(file, 'm')).rejects.toThrow(FileError);
  await expect(exporting(file, 'm')).rejects.toThrow(/file can't be replaced: it is a file/);
  await expect(exporting(join(file, 'model'), 'm')).rejects.toThrow(FileError);
  expect(readdirSync(scratch).sort()).toEqual(['file', 'link']);
});

test('the folder in which the process works is not replaced', async () => {
  const folder = join(installed.folder, 'working', 'deeper');
  mkdirSync(folder, { recursive: true });
  const printed = await installed.run(`
    import { exportModel } from '@mlx-runners/program';
    process.chdir(${JSON.stringify(folder)});
    const description = {
      model: { id: 'm' }, dtype: 'float32', parameters: new Map(),
      methods: { run: { inputs: { x: { dtype: 'float32', shape: [1] } }, run: ({ x }) => ({ x }) } },
    };
    for (const out of ['.', '..']) {
      await exportModel(out, description).catch(({ code, message }) => console.log(code, message));
    }
    await exportModel('./out', description);
  `);
  expect(printed.split('\n')).toEqual([
    "FILE . can't be replaced: this process works in it.",
    "FILE .. can't be replaced: this process works in it.",
    '',
  ]);
  expect(readdirSync(folder)).toEqual(['out']);
});

test('long names of folders', async () => {
  const folder = join(scratchFolder(), 'm'.repeat(250));
  await exporting(folder, 'first');
  await exporting(folder, 'second');
  expect(idOf(folder)).toBe('second');
});

test('a process that ends meanwhile leaves nothing behind', async () => {
  const scratch = join(installed.folder, 'ended');
  mkdirSync(scratch);
  await installed.run(`
    import { readdirSync } from 'node:fs';
    import { exportModel } from '@mlx-runners/program';
    const run = { inputs: { x: { dtype: 'float32', shape: [1] } }, run: ({ x }) => ({ x }) };
    void exportModel(${JSON.stringify(join(scratch, 'model'))}, {
      model: { id: 'm' }, dtype: 'float32', parameters: new Map(), methods: { run },
    });
    setInterval(() => {
      if (readdirSync(${JSON.stringify(scratch)}).length > 0) process.exit();
    }, 0);
  `);
  expect(readdirSync(scratch).filter((name) => name.endsWith('.partial'))).toEqual([]);
});

const stale: Method = {
  inputs: { x: { dtype: 'float32', shape: [1] } },
  states: { kept: { dtype: 'float32', shape: [4] } },
  run: ({ x }, _, states) => {
    const before = states.kept;
    states.kept = mx.sliceUpdate(before, x, [0], [1]);
    return { y: before.add(1) };
  },
};

test.each([
  [
    'a state that is read beside its update',
    stale,
    /^\/.*model: run: a state is used beside .*sliceUpdate at .*replace-folder\.test\.ts:\d+.*use the updated state/,
  ],
  [
    'a state that becomes another shape',
    {
      ...stale,
      run: ({ x }, _, states) => ({ y: (states.kept = x.add(1)) }),
    } satisfies Method,
    /run.* state kept .*float32 ?\[1\]/,
  ],
  [
    'a state that becomes another dtype',
    {
      ...stale,
      run: ({ x }, _, states) => {
        states.kept = states.kept.astype('float16');
        return { y: x.add(1) };
      },
    } satisfies Method,
    /run.* state kept .*float16 ?\[4\]/,
  ],
  [
    'traces with different outputs',
    [method, { ...method, run: ({ x }) => ({ z: x.add(1) }) } satisfies Method],
    /run: .*outputs/,
  ],
])('%s is refused at export, and an earlier one stays', async (_, refused, message) => {
  const scratch = scratchFolder();
  const folder = join(scratch, 'model');
  for (const before of [[], ['model']]) {
    const attempt = exporting(folder, 'second', refused);
    await expect(attempt).rejects.toThrow(ProgramError);
    await expect(attempt).rejects.toThrow(message);
    await expect(attempt).rejects.not.toThrow(/partial/);
    expect(readdirSync(scratch)).toEqual(before);
    await exporting(folder, 'first');
  }
  expect(idOf(folder)).toBe('first');
  expect(existsSync(join(folder, 'weights.safetensors'))).toBe(true);
});

test('a model that fails to be traced leaves nothing behind', async () => {
  const folder = join(scratchFolder(), 'model');
  const failing: Method = {
    dimensions: { T: { min: 1, max: 20 } },
    inputs: { x: { dtype: 'float32', shape: ['T'] } },
    run: ({ x }) => ({ y: x.multiply(1 / x.shape[0]) }),
  };
  await expect(exporting(folder, 'm', failing)).rejects.toThrow(ProgramError);
  expect(readdirSync(join(folder, '..'))).toEqual([]);
});
