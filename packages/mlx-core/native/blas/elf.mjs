import { readFileSync } from 'node:fs';

const SECTION_DYNAMIC = 6;
const SECTION_DYNAMIC_SYMBOLS = 11;
const TAG_NEEDED = 1n;
const TAG_RPATH = 15n;
const TAG_RUNPATH = 29n;
const BINDING_WEAK = 2;

/**
 * What the dynamic linker reads from a 64-bit little-endian ELF library (System V gABI, chapter 5):
 * the libraries it needs, the folders it searches for them, and its dynamic symbols by kind.
 * Own code because a build machine need not have readelf.
 *
 * @param {string} path
 * @returns {{ needed: string[], searchPath: string[], undefined: string[], defined: Set<string> }}
 *   `undefined` leaves out weak symbols, which nobody has to provide.
 * @throws {Error} when the file is something else.
 */
export function readElf(path) {
  const file = readFileSync(path);
  const isElf64 = file.length >= 64 && file.toString('latin1', 0, 6) === '\x7fELF\x02\x01';
  if (!isElf64) throw new Error(`${path} is not a 64-bit little-endian ELF library`);

  const sections = readSections(file);
  const dynamic = readDynamic(file, sections);
  return {
    needed: dynamic.filter((entry) => entry.tag === TAG_NEEDED).map((entry) => entry.text),
    searchPath: dynamic
      .filter((entry) => entry.tag === TAG_RPATH || entry.tag === TAG_RUNPATH)
      .flatMap((entry) => entry.text.split(':')),
    ...readSymbols(file, sections),
  };
}

/** @typedef {{ type: number, offset: number, size: number, link: number }} Section */

function readSections(/** @type {Buffer} */ file) {
  const start = Number(file.readBigUInt64LE(40));
  const entrySize = file.readUInt16LE(58);
  return Array.from({ length: file.readUInt16LE(60) }, (_, index) => {
    const at = start + index * entrySize;
    return {
      type: file.readUInt32LE(at + 4),
      offset: Number(file.readBigUInt64LE(at + 24)),
      size: Number(file.readBigUInt64LE(at + 32)),
      link: file.readUInt32LE(at + 40),
    };
  });
}

/** A table section with the reader of the string section that it is linked to. */
function findTable(
  /** @type {Buffer} */ file,
  /** @type {Section[]} */ sections,
  /** @type {number} */ type,
) {
  const table = sections.find((section) => section.type === type);
  if (table === undefined)
    return { offset: 0, size: 0, text: /** @type {(offset: number) => string} */ (() => '') };
  const strings = sections[table.link].offset;
  const text = (/** @type {number} */ offset) => {
    const start = strings + offset;
    return file.toString('latin1', start, file.indexOf(0, start));
  };
  return { offset: table.offset, size: table.size, text };
}

function readDynamic(/** @type {Buffer} */ file, /** @type {Section[]} */ sections) {
  const table = findTable(file, sections, SECTION_DYNAMIC);
  const entries = [];
  for (let at = table.offset; at < table.offset + table.size; at += 16) {
    const tag = file.readBigUInt64LE(at);
    if (tag !== TAG_NEEDED && tag !== TAG_RPATH && tag !== TAG_RUNPATH) continue;
    entries.push({ tag, text: table.text(Number(file.readBigUInt64LE(at + 8))) });
  }
  return entries;
}

function readSymbols(/** @type {Buffer} */ file, /** @type {Section[]} */ sections) {
  const table = findTable(file, sections, SECTION_DYNAMIC_SYMBOLS);
  const undefinedNames = [];
  const defined = new Set();
  for (let at = table.offset + 24; at < table.offset + table.size; at += 24) {
    const name = table.text(file.readUInt32LE(at));
    const isDefined = file.readUInt16LE(at + 6) !== 0;
    if (isDefined) defined.add(name);
    else if (file[at + 4] >> 4 !== BINDING_WEAK) undefinedNames.push(name);
  }
  return { undefined: undefinedNames, defined };
}
