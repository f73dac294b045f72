/** Where the addon is looked for, and the one error when it is nowhere. */
import { existsSync } from 'node:fs';
import { release } from 'node:os';
import { dirname, isAbsolute, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { NativeError } from './errors.js';

const file = 'mlx_core.node';
const platform = `${process.platform}-${process.arch}`;
const platformPackage = `@mlx-runners/mlx-core-${platform}`;

/** Platforms with a package of their own, as packaging/platforms.mjs has them. */
const prebuilt = ['darwin-arm64', 'linux-arm64', 'linux-x64'];
const oldestGlibc = [2, 35] as const;
/** macOS 14 */
const oldestDarwin = 23;

interface Place {
  where: string;
  path: () => string;
}

/** Loads the addon. */
export function loadAddon(): unknown {
  // Taken like this because webpack puts a function of its own in the place of an imported `createRequire`.
  const load = process.getBuiltinModule('node:module').createRequire(runningFile());
  const failures: string[] = [];
  for (const { where, path } of places(dirname(runningFile()), load)) {
    try {
      const found = path();
      if (existsSync(found)) return load(found);
      failures.push(`- ${where}: there is no ${found}`);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      failures.push(`- ${where}: ${reason.split('\n')[0]}`);
    }
  }
  throw new NativeError(
    [
      `The native library of mlx-core for ${platform} can't be loaded.`,
      ...['Tried:', ...failures],
      ...['Possible solutions:', ...remedies()],
    ].join('\n'),
  );
}

/** This file, or the one that it was bundled into. */
function runningFile(): string {
  // Under `node -e` and `node -` there is a global __filename, '[eval]' or '[stdin]'.
  if (typeof __filename === 'string' && isAbsolute(__filename)) return __filename;
  // Bundles that are CommonJS have none, and come here when they are read from standard input.
  const url = import.meta.url as string | undefined;
  return url === undefined ? resolve('[stdin]') : fileURLToPath(url);
}

/** The places where the addon may be, in the order in which they are tried. */
function places(here: string, load: NodeJS.Require): Place[] {
  // Whoever names a place means that one: another library in its stead would go unnoticed.
  const own = process.env.MLX_RUNNERS_NATIVE;
  if (own) {
    const path = resolve(own.endsWith('.node') ? own : join(own, file));
    return [{ where: 'MLX_RUNNERS_NATIVE', path: () => path }];
  }
  return [
    { where: 'beside the running file', path: () => join(here, file) },
    { where: 'beside the running file', path: () => join(here, 'native', file) },
    {
      where: `the package ${platformPackage}`,
      path: () => load.resolve(`${platformPackage}/${file}`),
    },
    { where: "the workspace's build", path: () => join(here, '..', 'build', 'native', file) },
  ];
}

function remedies(): string[] {
  const unfit = whyPrebuiltDoesNotFit();
  if (process.env.MLX_RUNNERS_NATIVE) {
    return [
      ...(unfit ? [`- ${unfit}`] : []),
      `- set MLX_RUNNERS_NATIVE to a folder with ${file} and its libraries, or to that file`,
      '- unset it: then the library is looked for in the usual places',
    ];
  }
  const install = [
    '- install with optional dependencies: npm install --include=optional (after removing a lock file made on another system)',
    `- in a program that was bundled: make @mlx-runners/mlx-core external, or copy what is in ${platformPackage} beside the bundle`,
  ];
  return [
    ...(unfit ? [`- ${unfit}`] : install),
    '- in a clone of mlx-runners: npx nx run mlx-core:build-native',
    `- point MLX_RUNNERS_NATIVE at a folder with ${file} and its libraries`,
  ];
}

/** Why no published library runs on this machine, and where one would; undefined where one should. */
function whyPrebuiltDoesNotFit(): string | undefined {
  if (platform === 'darwin-x64') {
    return 'MLX needs Apple silicon. On such a Mac this is the Intel version of Node: install the arm64 one';
  }
  if (!prebuilt.includes(platform)) {
    const hint = process.platform === 'win32' ? '; on Windows use WSL 2' : '';
    return `there are libraries for ${prebuilt.join(', ')} only${hint}`;
  }
  if (process.platform === 'darwin') {
    if (Number(release().split('.')[0]) >= oldestDarwin) return undefined;
    return 'the library needs macOS 14 or newer';
  }
  const needs = `the library needs glibc ${oldestGlibc.join('.')} or newer (Debian 12, Ubuntu 22.04, Fedora 36)`;
  const glibc = glibcVersion();
  if (glibc === undefined) {
    return `this system has musl instead of glibc, as Alpine does; ${needs}`;
  }
  const [major, minor] = glibc.split('.').map(Number);
  const isOld = major < oldestGlibc[0] || (major === oldestGlibc[0] && minor < oldestGlibc[1]);
  return isOld ? `this system has glibc ${glibc}; ${needs}` : undefined;
}

/** Undefined where there is another C library. */
function glibcVersion(): string | undefined {
  // The types of Node 20.19 lack the setting.
  const report = process.report as NodeJS.ProcessReport & { excludeNetwork: boolean };
  const { excludeNetwork } = report;
  // Else it would look up the names of network addresses, which takes long.
  report.excludeNetwork = true;
  const { header } = report.getReport() as { header: { glibcVersionRuntime?: string } };
  report.excludeNetwork = excludeNetwork;
  return header.glibcVersionRuntime;
}
