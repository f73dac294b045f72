import { spawnSync } from 'node:child_process';
import { chmodSync, cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

const workspaceRoot = join(import.meta.dirname, '../../..');

/** What each program of a complete machine answers, as the body of a shell script. */
const MACHINE = {
  python3: 'echo Python 3.11',
  cmake: 'echo cmake version 3.25.1',
  make: 'echo GNU Make 4.3',
  'c++': 'echo c++ 12',
  'apt-get': 'echo apt 2.6',
};

/**
 * A fresh clone on a made-up machine: the bootstrap's own files, an npm that installs a made-up Nx, and a PATH with
 * nothing but the programs of MACHINE, changed by `programs` (undefined: not installed).
 */
export function makeClone(/** @type {Partial<typeof MACHINE>} */ programs = {}) {
  const root = mkdtempSync(join(tmpdir(), 'mlx-runners-clone-'));
  const scripts = 'packages/mlx-core/scripts';
  cpSync(join(workspaceRoot, scripts), join(root, scripts), { recursive: true });
  for (const file of ['start.mjs', 'test.mjs', 'src']) {
    const path = join('tools/bootstrap', file);
    cpSync(join(workspaceRoot, path), join(root, path), { recursive: true });
  }
  const write = (/** @type {string} */ file, /** @type {string} */ text) => {
    mkdirSync(join(root, dirname(file)), { recursive: true });
    writeFileSync(join(root, file), text);
  };
  write('package-lock.json', '{}');
  write('runners/whisper/dist/cli.js', 'console.log(JSON.stringify(process.argv.slice(2)))');
  write('npm.cjs', FAKE_NPM);
  write('nx.cjs', FAKE_NX);
  for (const [program, body] of Object.entries({ ...MACHINE, ...programs })) {
    if (body === undefined) continue;
    write(`bin/${program}`, `#!/bin/sh\n${body}\n`);
    chmodSync(join(root, 'bin', program), 0o755);
  }
  return {
    root,
    write,
    /** Runs `npm start` (script `start`) or `npm test`. */
    run(/** @type {'start' | 'test'} */ script, /** @type {string[]} */ ...args) {
      const { status, stdout, stderr } = spawnSync(
        process.execPath,
        [join(root, 'tools/bootstrap', `${script}.mjs`), ...args],
        {
          encoding: 'utf8',
          cwd: root,
          env: { PATH: join(root, 'bin'), npm_execpath: join(root, 'npm.cjs') },
        },
      );
      return { status, stdout, stderr };
    },
    /** Leaves what says that the native addon is up to date. */
    async markNativeBuilt() {
      const { buildStamp } = await import(join(root, scripts, 'build-stamp.mjs'));
      write('packages/mlx-core/build/native/build.json', buildStamp());
    },
    remove: () => rmSync(root, { recursive: true }),
  };
}

/** Says on stdout, as npm does, that it ran. */
const FAKE_NPM = `
const fs = require('node:fs');
const path = require('node:path');
console.log('npm', process.argv.slice(2).join(' '));
const modules = path.join(__dirname, 'node_modules');
fs.mkdirSync(path.join(modules, 'nx'), { recursive: true });
fs.copyFileSync(path.join(__dirname, 'nx.cjs'), path.join(modules, 'nx/nx.cjs'));
fs.writeFileSync(path.join(modules, 'nx/package.json'), JSON.stringify({ bin: { nx: './nx.cjs' } }));
fs.writeFileSync(path.join(modules, '.package-lock.json'), '{}');
`;

/** Hands over the results in nx-results.json, and ends with the exit code in them. */
const FAKE_NX = `
const fs = require('node:fs');
console.log('nx', process.argv.slice(2).join(' '));
const file = process.env.MLX_RUNNERS_TASK_RESULTS;
const { exitCode = 0, ...results } = fs.existsSync('nx-results.json')
  ? JSON.parse(fs.readFileSync('nx-results.json', 'utf8'))
  : {};
if (file && results.tasks) fs.writeFileSync(file, JSON.stringify(results));
process.exitCode = exitCode;
`;
