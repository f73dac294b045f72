/** @typedef {{ arch?: number, macos?: number, needed?: string[], searchPath?: string[], symbols?: [string, number][], signed?: boolean }} Library */

const numbers = (...values) => Buffer.from(Uint32Array.from(values).buffer);
const command = (type, body) => Buffer.concat([numbers(type, 8 + body.length), body]);
const padded = (text) => Buffer.from(text.padEnd(8 * Math.ceil((text.length + 1) / 8), '\0'));

/**
 * The bytes of a Mach-O library that has only what the dynamic linker asks for. `symbols` are undefined ones with the
 * number of the library that they come from, from 1, or 0xfe.
 *
 * @param {Library} library
 */
export function machO({
  arch = 0x0100000c,
  macos = 14,
  needed = [],
  searchPath = [],
  symbols = [],
  signed = true,
}) {
  const before = [
    command(0x32, numbers(1, macos << 16, macos << 16, 0)),
    ...needed.map((path) => command(0xc, Buffer.concat([numbers(24, 0, 0, 0), padded(path)]))),
    ...searchPath.map((path) => command(0x8000001c, Buffer.concat([numbers(12), padded(path)]))),
    ...(signed ? [command(0x1d, numbers(0, 0))] : []),
  ];
  const size = before.reduce((sum, { length }) => sum + length, 24);
  const table = 32 + size;
  const strings = table + 16 * symbols.length;
  let names = '\0';
  const entries = symbols.map(([name, library]) => {
    const entry = Buffer.alloc(16);
    entry.writeUInt32LE(names.length, 0);
    entry[4] = 1;
    entry[7] = library;
    names += `${name}\0`;
    return entry;
  });
  return Buffer.concat([
    numbers(0xfeedfacf, arch, 0, 6, before.length + 1, size, 0, 0),
    ...before,
    command(0x2, numbers(table, symbols.length, strings, names.length)),
    ...entries,
    Buffer.from(names),
  ]);
}
