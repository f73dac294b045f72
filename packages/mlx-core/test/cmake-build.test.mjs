import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from 'vitest';

/** In the place of the compiler: notes what it did, and compiles until the test lets it end. */
const CMAKE_JS = `
  const { appendFileSync, existsSync, readFileSync, writeFileSync } = require('node:fs');
  const [, , command, ...args] = process.argv;
  const value = (name) => args[args.indexOf(name) + 1];
  const folder = value('--out');
  const file = (name) => folder + '/' + name;
  const note = (what) => appendFileSync(folder + '.notes', what + ' ' + value('--target') + '\\n');
  if (command === 'configure') note(existsSync(file('object')) ? 'continued' : 'began');
  if (command === 'build') {
    writeFileSync(file('object'), value('--target'));
    note('compiling');
    const timer = setInterval(() => {
      // One that outlived its build must not outlive the test.
      if (!existsSync(folder + '.notes')) process.exit(1);
      if (!existsSync(folder + '.end')) return;
      clearInterval(timer);
      if (readFileSync(file('object'), 'utf8') !== value('--target')) process.exit(1);
      note('compiled');
    }, 10);
  }`;

let root;
let folder;
const builds = new Set();
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'mlx-core-build-'));
  folder = join(root, 'build/cmake');
  cpSync(join(import.meta.dirname, '../scripts'), join(root, 'scripts'), { recursive: true });
  const cmakeJs = join(root, 'node_modules/cmake-js');
  mkdirSync(join(cmakeJs, 'bin'), { recursive: true });
  writeFileSync(join(cmakeJs, 'bin/cmake-js.js'), CMAKE_JS);
  writeFileSync(
    join(cmakeJs, 'package.json'),
    JSON.stringify({ exports: { './bin/cmake-js': './bin/cmake-js.js' } }),
  );
});
afterEach(async () => {
  letEnd();
  await Promise.all([...builds].map(({ ended }) => ended));
  builds.clear();
  rmSync(root, { recursive: true });
});

const letEnd = () => writeFileSync(`${folder}.end`, '');
const notes = () =>
  existsSync(`${folder}.notes`) ? readFileSync(`${folder}.notes`, 'utf8').trim().split('\n') : [];

/** A process that builds `target`, into a folder which the others share. */
function build(target) {
  const program = `
    import { cmakeBuild } from './scripts/cmake-build.mjs';
    import { runScript } from './scripts/tool-error.mjs';
    import { appendFileSync } from 'node:fs';
    const [folder, target] = process.argv.slice(1);
    const logFile = folder + '.' + target + '.log';
    const publish = () => appendFileSync(folder + '.notes', 'published ' + target + '\\n');
    await runScript(() => cmakeBuild({ folder, target, logFile, definitions: {}, publish }));`;
  const args = ['--input-type=module', '-e', program, folder, target];
  const child = spawn(process.execPath, args, { cwd: root });
  const stderr = text(child.stderr);
  const ended = once(child, 'close').then(async ([code]) => ({ code, stderr: await stderr }));
  const started = { child, ended };
  builds.add(started);
  return started;
}

async function until(condition) {
  while (!condition()) await sleep(10);
}
const compiling = (target) => until(() => notes().includes(`compiling ${target}`));

test('a build waits for another in its folder, and goes on from what that made', async () => {
  const first = build('a');
  await compiling('a');
  const second = build('b');
  const [said] = await once(second.child.stderr, 'data');
  const waiting = `Another build runs in ${folder} (process ${first.child.pid}); waiting for it.\n`;
  expect(String(said)).toBe(waiting);
  expect(notes()).toEqual(['began a', 'compiling a']);
  letEnd();
  expect(await first.ended).toEqual({ code: 0, stderr: '' });
  expect(await second.ended).toEqual({ code: 0, stderr: waiting });
  expect(notes()).toEqual([
    ...['began a', 'compiling a', 'compiled a', 'published a'],
    ...['continued b', 'compiling b', 'compiled b', 'published b'],
  ]);
});

test.each(['SIGKILL', 'SIGINT'])(
  'after a build that was ended by %s the next begins afresh, at once',
  async (signal) => {
    const first = build('a');
    await compiling('a');
    const second = build('b');
    await once(second.child.stderr, 'data');
    first.child.kill(signal);
    await compiling('b');
    letEnd();
    expect((await first.ended).code).not.toBe(0);
    expect((await second.ended).code).toBe(0);
    expect(notes()).toContain('began b');
    expect(await build('c').ended).toEqual({ code: 0, stderr: '' });
    expect(notes()).toContain('continued c');
  },
);
