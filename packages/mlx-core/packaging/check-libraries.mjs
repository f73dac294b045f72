import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { readElf } from '../native/blas/elf.mjs';
import { ToolError } from '../scripts/tool-error.mjs';
import { readMachO } from './mach-o.mjs';

const workspaceRoot = join(import.meta.dirname, '../../..');

/** What every Linux with glibc and Node has. */
const LINUX_SYSTEM =
  /^(ld-linux-.*|libc|libm|libpthread|libdl|librt|libstdc\+\+|libgcc_s)\.so\.\d+$/;
/** manylinux_2_35: glibc 2.35 and the libstdc++ of GCC 12. */
const LINUX_VERSIONS = { GLIBC_2: 35, 'GLIBCXX_3.4': 30 };

/** What only the version of Node that it was built for has: V8, libuv and Node's own C++. */
const ONE_NODE = /^(_ZNK?(2v8|4node)|uv_)/;

const DARWIN_SYSTEM = /^\/(usr\/lib|System\/Library\/Frameworks)\//;
const DARWIN_MINIMUM = '14.0';
/** What the addon takes from Node and from the C++ library: found when it is loaded. */
const DARWIN_LATE =
  /^_(napi_|node_api_)|^__Z.*St|^__ZTVN10__cxxabiv1|^__Z(n[wa]|d[la])|^___(cxa_|gxx_|dynamic_cast)/;
/** Of the C++ library after macOS 14: in the addon when the compiler's headers don't keep to that version. */
const DARWIN_TOO_NEW = /__hash_memory|bad_function_call/;

/**
 * Checks that libraries built on this machine load on others: everything they need comes along or is part of the
 * oldest system that is supported, and nothing is looked for in a folder of this machine.
 *
 * @param {'linux' | 'darwin'} os
 * @param {string} folder
 * @param {string[]} files in the folder
 * @throws {ToolError} listing every mistake
 */
export function checkLibraries(os, folder, files) {
  const check = { linux: linuxProblems, darwin: darwinProblems }[os];
  const problems = files.flatMap((file) =>
    [
      ...localPathProblems(join(folder, file)),
      ...(file.endsWith('.metallib') ? [] : check(folder, file, files)),
    ].map((problem) => `${file} ${problem}`),
  );
  if (problems.length > 0) {
    throw new ToolError(
      `${folder} can't be published:\n${problems.map((p) => `- ${p}`).join('\n')}`,
    );
  }
}

function localPathProblems(/** @type {string} */ path) {
  return readFileSync(path).includes(workspaceRoot) ? [`contains the path ${workspaceRoot}`] : [];
}

function linuxProblems(
  /** @type {string} */ folder,
  /** @type {string} */ file,
  /** @type {string[]} */ files,
) {
  const library = readElf(join(folder, file));
  const text = readFileSync(join(folder, file), 'latin1');
  return [
    ...library.needed
      .filter((name) => !files.includes(name) && !LINUX_SYSTEM.test(name))
      .map((name) => `needs ${name}, which does not come along`),
    ...library.searchPath
      .filter((path) => !path.startsWith('$ORIGIN'))
      .map((path) => `looks for libraries in ${path}`),
    ...nodeProblems(library.undefined),
    ...Object.entries(LINUX_VERSIONS).flatMap(([series, newest]) => {
      const used = [...text.matchAll(new RegExp(`\\b${series}\\.(\\d+)`, 'g'))].map((m) =>
        Number(m[1]),
      );
      const most = Math.max(0, ...used);
      return most > newest
        ? [`needs ${series}.${most}: build on a system with ${series}.${newest}`]
        : [];
    }),
  ];
}

function nodeProblems(/** @type {string[]} */ symbols) {
  const tied = symbols.filter((name) => ONE_NODE.test(name));
  return tied.map((name) => `takes ${name} from Node, which only one version of it has`);
}

function darwinProblems(
  /** @type {string} */ folder,
  /** @type {string} */ file,
  /** @type {string[]} */ files,
) {
  const library = readMachO(join(folder, file));
  const along = files.map((name) => `@rpath/${name}`);
  return [
    ...(library.arch === 'arm64' ? [] : [`is for ${library.arch}`]),
    ...(library.minos === DARWIN_MINIMUM ? [] : [`needs macOS ${library.minos}`]),
    ...(library.signed ? [] : ['has no code signature: macOS on arm64 refuses it']),
    ...library.needed
      .filter((name) => !along.includes(name) && !DARWIN_SYSTEM.test(name))
      .map((name) => `needs ${name}, which does not come along`),
    ...library.searchPath
      .filter((path) => path !== '@loader_path')
      .map((path) => `looks for libraries in ${path}`),
    ...(file === 'mlx_core.node' ? addonProblems(library) : []),
  ];
}

function addonProblems(/** @type {import('./mach-o.mjs').MachO} */ addon) {
  const late = [...addon.undefined].filter(([, library]) => library === '').map(([name]) => name);
  return [
    ...(addon.needed.includes('@rpath/libmlx.dylib') ? [] : ['does not load libmlx.dylib']),
    ...(addon.searchPath.includes('@loader_path') ? [] : ['does not look beside itself']),
    ...late.filter((name) => !DARWIN_LATE.test(name)).map((name) => `takes ${name} from nowhere`),
    ...late
      .filter((name) => DARWIN_TOO_NEW.test(name))
      .map((name) => `takes ${name}, which macOS ${DARWIN_MINIMUM} does not have`),
  ];
}
