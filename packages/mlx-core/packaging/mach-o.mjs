import { readFileSync } from 'node:fs';

const MAGIC_64 = 0xfeedfacf;
const CPU_TYPES = { 0x01000007: 'x86_64', 0x0100000c: 'arm64' };
const FILE_TYPES = { 6: 'dylib', 8: 'bundle' };
const PLATFORM_MACOS = 1;

const LC_SYMTAB = 0x2;
const LC_LOAD_DYLIB = 0xc;
const LC_LOAD_WEAK_DYLIB = 0x80000018;
const LC_REEXPORT_DYLIB = 0x8000001f;
const LC_RPATH = 0x8000001c;
const LC_CODE_SIGNATURE = 0x1d;
const LC_BUILD_VERSION = 0x32;

/** Of a symbol's type byte: debugging entry, kind, external. */
const SYMBOL_KIND = 0xef;
const UNDEFINED_EXTERNAL = 0x01;

/**
 * What macOS's dynamic linker reads from a 64-bit Mach-O library (mach-o/loader.h, mach-o/nlist.h). Own code because
 * the library is looked at on Linux.
 *
 * @param {string} path
 * @returns {MachO} `minos` is the oldest macOS that loads it; `undefined` are external symbols by the library
 *   that they are to come from, '' where that is found out at load
 * @throws {Error} when the file is something else
 *
 * @typedef {{
 *   fileType: string, arch: string, minos: string | undefined, needed: string[], searchPath: string[], signed: boolean,
 *   undefined: Map<string, string>,
 * }} MachO
 */
export function readMachO(path) {
  const file = readFileSync(path);
  if (file.length < 32 || file.readUInt32LE(0) !== MAGIC_64) {
    throw new Error(`${path} is not a 64-bit Mach-O library`);
  }
  const commands = readCommands(file);
  const all = (/** @type {number[]} */ ...types) => commands.filter((c) => types.includes(c.type));
  const needed = all(LC_LOAD_DYLIB, LC_LOAD_WEAK_DYLIB, LC_REEXPORT_DYLIB).map((c) =>
    text(file, c),
  );
  return {
    arch: nameOf(CPU_TYPES, file.readUInt32LE(4)),
    fileType: nameOf(FILE_TYPES, file.readUInt32LE(12)),
    minos: all(LC_BUILD_VERSION)
      .filter(({ at }) => file.readUInt32LE(at + 8) === PLATFORM_MACOS)
      .map(({ at }) => `${file.readUInt16LE(at + 14)}.${file[at + 13]}`)[0],
    needed,
    searchPath: all(LC_RPATH).map((command) => text(file, command)),
    signed: all(LC_CODE_SIGNATURE).length > 0,
    undefined: new Map(all(LC_SYMTAB).flatMap(({ at }) => undefinedSymbols(file, at, needed))),
  };
}

function nameOf(/** @type {Record<number, string>} */ names, /** @type {number} */ value) {
  return names[value] ?? `0x${value.toString(16)}`;
}

function readCommands(/** @type {Buffer} */ file) {
  let at = 32;
  return Array.from({ length: file.readUInt32LE(16) }, () => {
    const command = { type: file.readUInt32LE(at), at };
    at += file.readUInt32LE(at + 4);
    return command;
  });
}

/** The string of a command, which says itself where in it the string begins. */
function text(/** @type {Buffer} */ file, /** @type {{ at: number }} */ { at }) {
  return stringAt(file, at + file.readUInt32LE(at + 8));
}

function stringAt(/** @type {Buffer} */ file, /** @type {number} */ start) {
  return file.toString('utf8', start, file.indexOf(0, start));
}

function undefinedSymbols(
  /** @type {Buffer} */ file,
  /** @type {number} */ at,
  /** @type {string[]} */ libraries,
) {
  const [table, count, strings] = [8, 12, 16].map((field) => file.readUInt32LE(at + field));
  return Array.from({ length: count }, (_, index) => table + 16 * index)
    .filter((entry) => (file[entry + 4] & SYMBOL_KIND) === UNDEFINED_EXTERNAL)
    .map(
      (entry) =>
        /** @type {const} */ ([
          stringAt(file, strings + file.readUInt32LE(entry)),
          libraries[file[entry + 7] - 1] ?? '',
        ]),
    );
}
