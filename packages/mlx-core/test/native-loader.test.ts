import { spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { nativeFolder, plainPackage } from './plain-package.js';

const program = plainPackage();
afterAll(() => program.remove());

const file = 'mlx_core.node';
const platform = `${process.platform}-${process.arch}`;
const attempt = `
  import { mx, NativeError } from 'mlx-core';
  try {
    console.log(await mx.array([1]).add(1).item());
  } catch (error) {
    console.log(error instanceof NativeError, error.message);
  }`;

const needsGlibc = 'the library needs glibc 2.35 or newer (Debian 12, Ubuntu 22.04, Fedora 36)';

/** A module that makes the process believe to be on another system. */
function pretence(os: string, cpu: string, system: { release?: string; glibc?: string }): string {
  const source = `
    import os from 'node:os';
    import { syncBuiltinESMExports } from 'node:module';
    Object.defineProperty(process, 'platform', { value: '${os}' });
    Object.defineProperty(process, 'arch', { value: '${cpu}' });
    process.report.getReport = () => ({ header: { glibcVersionRuntime: ${JSON.stringify(system.glibc)} } });
    os.release = () => '${system.release ?? '6.1'}';
    syncBuiltinESMExports();`;
  return `data:text/javascript,${encodeURIComponent(source)}`;
}

describe('MLX_RUNNERS_NATIVE', () => {
  test('names the folder, or the library itself', async () => {
    for (const native of [nativeFolder, join(nativeFolder, file)]) {
      expect((await program.run(attempt, { native })).stdout).toBe('2\n');
    }
  });

  test.each(['nowhere', join('nowhere', file)])(
    '%s: an error says that it is wrong',
    async (own) => {
      const native = join(program.folder, own);
      // Another library in a place where it would be found must not be taken in its stead.
      const { code, stdout } = await program.run(attempt, { native });
      expect(code).toBe(0);
      expect(stdout).toMatch(/^true The native library of mlx-core for/);
      expect(stdout).toContain(
        `- MLX_RUNNERS_NATIVE: there is no ${join(program.folder, 'nowhere', file)}`,
      );
      expect(stdout).not.toContain('beside the running file');
      const [, solutions] = stdout.split('Possible solutions:\n');
      expect(solutions.trimEnd().split('\n')).toEqual([
        `- set MLX_RUNNERS_NATIVE to a folder with ${file} and its libraries, or to that file`,
        '- unset it: then the library is looked for in the usual places',
      ]);
    },
  );

  test('a file that is no library is an error with the system’s reason', async () => {
    const native = join(program.folder, 'broken.node');
    writeFileSync(native, 'no library');
    const { stdout } = await program.run(attempt, { native });
    expect(stdout).toMatch(/^true .*\nTried:\n- MLX_RUNNERS_NATIVE: .*broken\.node/);
  });
});

describe('programs that are no file', () => {
  const adding = `({ mx }) => console.log(mx.array([1]).add(1).dataSync()[0])`;
  const imported = `import('mlx-core').then(${adding});`;
  const moduleText = `import * as core from 'mlx-core'; (${adding})(core);`;

  test.each([
    ['node -e', ['-e', imported], ''],
    ['node -p', ['-p', `${imported} 0`], ''],
    ['node -', ['-'], imported],
    ['node < file', [], imported],
    ['a module in node -e', ['--input-type=module', '-e', moduleText], ''],
    ['a module in node -', ['--input-type=module', '-'], moduleText],
  ])('%s', (_, args, input) => {
    const env = { ...process.env, NODE_OPTIONS: undefined, MLX_RUNNERS_NATIVE: nativeFolder };
    const options = { cwd: program.folder, env, input, encoding: 'utf8' } as const;
    const { stdout, stderr } = spawnSync(process.execPath, args, options);
    expect(stderr).toBe('');
    expect(stdout.trimEnd().split('\n').at(-1)).toBe('2');
  });
});

describe('without it', () => {
  test('the one error lists the places tried, in order, and what helps', async () => {
    const { code, stdout } = await program.run(attempt, { native: null });
    expect(code).toBe(0);
    const [tried, solutions] = stdout.split('Possible solutions:\n');
    expect(tried.split('\n').slice(0, -1)).toEqual([
      `true The native library of mlx-core for ${platform} can't be loaded.`,
      'Tried:',
      `- beside the running file: there is no ${join(program.folder, 'dist', file)}`,
      `- beside the running file: there is no ${join(program.folder, 'dist', 'native', file)}`,
      expect.stringContaining(
        `- the package @mlx-runners/mlx-core-${platform}: Cannot find module`,
      ),
      `- the workspace's build: there is no ${join(program.folder, 'build', 'native', file)}`,
    ]);
    expect(solutions.trimEnd().split('\n')).toEqual([
      expect.stringMatching(
        /^- install with optional dependencies: npm install --include=optional/,
      ),
      expect.stringMatching(
        /^- in a program that was bundled: make @mlx-runners\/mlx-core external,/,
      ),
      '- in a clone of mlx-runners: npx nx run mlx-core:build-native',
      `- point MLX_RUNNERS_NATIVE at a folder with ${file} and its libraries`,
    ]);
  });

  test.each([
    [
      'win32',
      'x64',
      {},
      'there are libraries for darwin-arm64, linux-arm64, linux-x64 only; on Windows use WSL 2',
    ],
    ['freebsd', 'x64', {}, 'there are libraries for darwin-arm64, linux-arm64, linux-x64 only'],
    [
      'darwin',
      'x64',
      {},
      'MLX needs Apple silicon. On such a Mac this is the Intel version of Node: install the arm64 one',
    ],
    ['darwin', 'arm64', { release: '22.6.0' }, 'the library needs macOS 14 or newer'],
    ['linux', 'x64', { glibc: '2.31' }, `this system has glibc 2.31; ${needsGlibc}`],
    ['linux', 'arm64', {}, `this system has musl instead of glibc, as Alpine does; ${needsGlibc}`],
  ])('on %s %s (%o) it says first why none fits', async (os, cpu, system, reason) => {
    const nodeArgs = ['--import', pretence(os, cpu, system)];
    const { stdout } = await program.run(attempt, { native: null, nodeArgs });
    expect(stdout).toMatch(`The native library of mlx-core for ${os}-${cpu} can't be loaded.`);
    const [, solutions] = stdout.split('Possible solutions:\n');
    expect(solutions.split('\n')[0]).toBe(`- ${reason}`);
    expect(solutions).not.toContain('npm install');
  });

  test('the platform’s package is found, and a broken one is named', async () => {
    const folder = join(program.folder, 'node_modules', '@mlx-runners', `mlx-core-${platform}`);
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, 'package.json'), '{}');
    writeFileSync(join(folder, file), 'no library');
    const { stdout } = await program.run(attempt, { native: null });
    expect(stdout).toMatch(
      new RegExp(`- the package @mlx-runners/mlx-core-${platform}: .*${file}`),
    );
  });

  test('a library beside the running file comes first', async () => {
    // A stand-in that only says where it lies: the real one needs its companions around it.
    const standIn = join(program.folder, 'stand-in.cjs');
    writeFileSync(standIn, `throw new Error('taken from ' + globalThis.asked);`);
    const withStandIn = `
      import Module, { createRequire } from 'node:module';
      Module._extensions['.node'] = (_, path) => {
        globalThis.asked = path;
        createRequire(import.meta.url)('${standIn}');
      };
      ${attempt}`;
    for (const folder of [join('build', 'native'), join('dist', 'native'), 'dist']) {
      const path = join(program.folder, folder);
      mkdirSync(path, { recursive: true });
      writeFileSync(join(path, file), '');
      const { stdout } = await program.run(withStandIn, { native: null });
      expect(stdout).toContain(`: taken from ${join(path, file)}`);
    }
  });
});
