import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { hostPlatform } from '../../../packages/mlx-core/scripts/wheels.mjs';
import { packAll } from '../src/pack.mjs';
import { publishedPackages } from '../src/published-packages.mjs';
import { stagePackage } from '../src/stage.mjs';

const NATIVE = `@mlx-runners/mlx-core-${hostPlatform}`;
const MB = 2 ** 20;

const folder = mkdtempSync(join(tmpdir(), 'mlx-runners-pack-'));
afterAll(() => rmSync(folder, { recursive: true }));

let packed;
beforeAll(async () => {
  packed = await packAll(join(folder, 'packed'), { platforms: [hostPlatform] });
}, 120_000);

const packedAs = (name) => packed.find((one) => one.name === name);
const pathsOf = ({ files }) => files.map(({ path }) => path).sort();
const manifestOf = (name) =>
  JSON.parse(readFileSync(join(folder, 'packed/staged', name, 'package.json'), 'utf8'));
const sourcesOf = (root) =>
  readdirSync(join(root, 'src'), { recursive: true }).filter((file) => file.endsWith('.ts'));

const packages = publishedPackages();

test('each package comes after those that it needs', () => {
  const names = packages.map(({ name }) => name);
  expect(names.at(0)).toBe('@mlx-runners/mlx-core');
  expect(names.indexOf('@mlx-runners/hub')).toBeLessThan(names.indexOf('@mlx-runners/runner'));
  expect(names).toContain('@mlx-runners/whisper');
  expect(names).not.toContain('@mlx-runners/test-fixtures');
});

describe.each(packages)('$name', ({ name, root, manifest }) => {
  test('has its sources, what was built of them, and nothing else', () => {
    const built = sourcesOf(root)
      .filter((file) => !file.endsWith('.d.ts'))
      .map((file) => file.replace(/\.ts$/, ''))
      .flatMap((file) =>
        ['.d.ts', '.d.ts.map', '.js', '.js.map'].map((end) => `dist/${file}${end}`),
      );
    const isRunner = root.includes('/runners/');
    const schemas = join(root, 'schemas');
    const published = existsSync(schemas) ? readdirSync(schemas) : [];
    expect(pathsOf(packedAs(name))).toEqual(
      [
        ...['LICENSE', 'README.md', 'package.json', ...(isRunner ? ['runner.json'] : [])],
        ...published.map((file) => `schemas/${file}`),
        ...built,
        ...sourcesOf(root).map((file) => `src/${file}`),
      ].sort(),
    );
  });

  test('is small', () => {
    expect(packedAs(name).size).toBeLessThan(MB / 4);
    expect(packedAs(name).unpackedSize).toBeLessThan(MB);
  });

  test('its package.json is for users', () => {
    const published = manifestOf(name);
    expect(published).toMatchObject({ version: packages[0].manifest.version, license: 'MIT' });
    for (const field of ['nx', 'devDependencies', 'scripts', 'private', 'binary']) {
      expect(published).not.toHaveProperty(field);
    }
    expect(JSON.stringify(published)).not.toContain('@mlx-runners/source');
    expect(published.engines).toEqual({ node: '>=20.19' });
    expect(Object.keys(published.exports)).toEqual(Object.keys(manifest.exports));
  });

  test('what it needs of ours is of the same version', () => {
    const { dependencies = {}, optionalDependencies = {}, version } = manifestOf(name);
    const own = Object.entries({ ...dependencies, ...optionalDependencies }).filter(
      ([dependency]) => dependency.startsWith('@mlx-runners/'),
    );
    for (const [dependency, range] of own)
      expect([dependency, range]).toEqual([dependency, version]);
  });
});

describe('the native library', () => {
  test('comes for every platform by its own package', () => {
    expect(manifestOf('@mlx-runners/mlx-core').optionalDependencies).toEqual({
      '@mlx-runners/mlx-core-darwin-arm64': packages[0].manifest.version,
      '@mlx-runners/mlx-core-linux-arm64': packages[0].manifest.version,
      '@mlx-runners/mlx-core-linux-x64': packages[0].manifest.version,
    });
  });

  test('has the addon, what it needs, and nothing else', () => {
    const libraries = {
      darwin: ['libmlx.dylib', 'mlx.metallib', 'mlx_core.node'],
      linux: [
        ...[
          expect.stringMatching(/^libblas-\w+\.so\.[\d.]+$/),
          expect.stringMatching(/^liblapack-\w+\.so\.[\d.]+$/),
        ],
        ...['libmlx.so', 'libscipy_openblas.so', 'mlx_core.node'],
      ],
    }[process.platform];
    expect(pathsOf(packedAs(NATIVE))).toEqual([
      ...['LICENSE', 'README.md', 'THIRD-PARTY-NOTICES.txt'],
      ...libraries,
      'package.json',
    ]);
  });

  test('fits the machine and is of a bearable size', () => {
    const { os, cpu, libc, scripts } = manifestOf(NATIVE);
    expect({ os, cpu }).toEqual({ os: [process.platform], cpu: [process.arch] });
    expect(libc).toEqual(process.platform === 'linux' ? ['glibc'] : undefined);
    expect(scripts).toBe(undefined);
    expect(packedAs(NATIVE).size).toBeLessThan((process.platform === 'linux' ? 20 : 60) * MB);
  });

  test('comes with the licences of what is in it', () => {
    const notices = readFileSync(
      join(folder, 'packed/staged', NATIVE, 'THIRD-PARTY-NOTICES.txt'),
      'utf8',
    );
    const authors = [
      'Apple Inc.',
      'Max-Planck-Society',
      'Niels Lohmann',
      'Node.js API collaborators',
    ];
    const linuxOnly = ['OpenBLAS', 'GCC RUNTIME LIBRARY EXCEPTION'];
    for (const text of [...authors, ...(process.platform === 'linux' ? linuxOnly : [])]) {
      expect(notices).toContain(text);
    }
  });
});

test('a pack that fails leaves the former one', async () => {
  const former = join(folder, 'former');
  mkdirSync(former);
  writeFileSync(join(former, 'a.tgz'), '');
  await expect(packAll(former, { platforms: ['darwin'] })).rejects.toThrow(
    /There is no package for darwin, only for darwin-arm64/,
  );
  expect(readdirSync(former)).toEqual(['a.tgz']);
  expect(readdirSync(folder).filter((name) => name.startsWith('former'))).toEqual(['former']);
});

describe('staging', () => {
  const root = join(folder, 'package');
  const published = { name: 'p', root, manifest: { name: 'p', version: '1.0.0', files: ['dist'] } };
  const target = join(folder, 'staged');
  beforeAll(() => {
    for (const name of ['src', 'dist']) mkdirSync(join(root, name), { recursive: true });
    writeFileSync(join(root, 'README.md'), '');
    writeFileSync(join(root, 'src/a.ts'), '');
    for (const file of ['a.js', 'a.js.map', 'a.d.ts', 'a.d.ts.map', 'former.js']) {
      writeFileSync(join(root, 'dist', file), '');
    }
  });

  test('leaves what was built of sources that are gone', () => {
    stagePackage(published, target);
    expect(readdirSync(join(target, 'dist'))).toEqual(['a.d.ts', 'a.d.ts.map', 'a.js', 'a.js.map']);
  });

  test('names what is not built', () => {
    writeFileSync(join(root, 'src/b.ts'), '');
    expect(() => stagePackage(published, target)).toThrow(/dist\/b\.js is missing: npx nx build p/);
  });

  test('says where it comes from when asked to', () => {
    rmSync(join(root, 'src/b.ts'));
    stagePackage(published, target, { repository: 'git+https://example.org/r.git' });
    const { repository } = JSON.parse(readFileSync(join(target, 'package.json'), 'utf8'));
    expect(repository).toMatchObject({ type: 'git', url: 'git+https://example.org/r.git' });
    expect(existsSync(join(target, 'LICENSE'))).toBe(true);
  });
});
