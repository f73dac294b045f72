/**
 * Where the entries of a zip file lie that are stored as they are, as those that torch.save writes. Sizes
 * and places come from the central directory at the file's end.
 * Source: APPNOTE.TXT of PKWARE, 4.3 and 4.5.3.
 */
import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { checkRegularFile, CheckpointError, quoted, systemReason } from '@mlx-runners/mlx-core';

export interface StoredEntry {
  name: string;
  /** Where its bytes begin in the file. */
  offset: number;
  bytes: number;
}

const END = { signature: 0x06054b50, bytes: 22 } as const;
const LOCATOR = { signature: 0x07064b50, bytes: 20 } as const;
const END64 = { signature: 0x06064b50, bytes: 56 } as const;
const ENTRY = { signature: 0x02014b50, bytes: 46 } as const;
const LOCAL = { signature: 0x04034b50, bytes: 30 } as const;
const ZIP64_FIELD = 1;
const LONGEST_COMMENT = 0xffff;
// An entry of a checkpoint takes about a hundred bytes: far more than any has.
const LARGEST_DIRECTORY = 100_000_000;

/** An open file, of which small parts are read. */
class ZipFile {
  readonly path: string;
  readonly size: number;
  readonly #file: number;

  constructor(path: string) {
    this.path = path;
    checkRegularFile(path);
    this.#file = openSync(path, 'r');
    this.size = fstatSync(this.#file).size;
  }

  close(): void {
    closeSync(this.#file);
  }

  fail(why: string): CheckpointError {
    return new CheckpointError(`${this.path} is no checkpoint of PyTorch, or cut off: ${why}.`);
  }

  read(offset: number, bytes: number, what: string): Buffer {
    if (!(offset >= 0 && bytes >= 0 && offset + bytes <= this.size)) {
      throw this.fail(`${what} would end after the file`);
    }
    const buffer = Buffer.alloc(bytes);
    if (readSync(this.#file, buffer, 0, bytes, offset) < bytes) {
      throw this.fail('it changed while it was read');
    }
    return buffer;
  }

  /** A record that begins with its signature. */
  record(
    offset: number,
    { signature, bytes }: Readonly<Record<'signature' | 'bytes', number>>,
    what: string,
  ): Buffer {
    const record = this.read(offset, bytes, what);
    if (record.readUInt32LE() !== signature) throw this.fail(`${what} is not where it should be`);
    return record;
  }
}

interface Directory {
  count: number;
  offset: number;
  bytes: number;
}

function directoryOf(zip: ZipFile): Directory {
  const tailBytes = Math.min(zip.size, END.bytes + LONGEST_COMMENT);
  const tail = zip.read(zip.size - tailBytes, tailBytes, 'the tail');
  const mark = Buffer.alloc(4);
  mark.writeUInt32LE(END.signature);
  const at = tail.lastIndexOf(mark, Math.max(0, tailBytes - END.bytes));
  if (at < 0 || at + END.bytes > tailBytes) throw zip.fail('it is no zip file');
  const end = tail.subarray(at);
  const directory = {
    count: end.readUInt16LE(10),
    bytes: end.readUInt32LE(12),
    offset: end.readUInt32LE(16),
  };
  const { count, bytes, offset } = directory;
  if (count < 0xffff && bytes < 0xffffffff && offset < 0xffffffff) return directory;
  const locatorAt = zip.size - tailBytes + at - LOCATOR.bytes;
  const locator = zip.record(locatorAt, LOCATOR, 'the place of the directory');
  const end64 = zip.record(sizeAt(zip, locator, 8), END64, 'the end of the directory');
  return {
    count: sizeAt(zip, end64, 32),
    bytes: sizeAt(zip, end64, 40),
    offset: sizeAt(zip, end64, 48),
  };
}

/** A size of 64 bits. */
function sizeAt(zip: ZipFile, record: Buffer, at: number): number {
  const size = Number(record.readBigUInt64LE(at));
  if (size > zip.size) throw zip.fail(`it has ${zip.size} bytes where ${size} are announced`);
  return size;
}

/** The numbers of an entry that need 64 bits: those that the 32 bits of its record can't hold. */
function wideSizes(zip: ZipFile, record: Buffer, extra: Buffer): [bytes: number, offset: number] {
  const sizes = {
    unpacked: record.readUInt32LE(24),
    packed: record.readUInt32LE(20),
    offset: record.readUInt32LE(42),
  };
  for (let at = 0; at + 4 <= extra.length;) {
    const start = at + 4;
    const end = start + extra.readUInt16LE(at + 2);
    if (extra.readUInt16LE(at) === ZIP64_FIELD && end <= extra.length) {
      let next = start;
      for (const name of ['unpacked', 'packed', 'offset'] as const) {
        if (sizes[name] !== 0xffffffff || next + 8 > end) continue;
        sizes[name] = sizeAt(zip, extra, next);
        next += 8;
      }
    }
    at = end;
  }
  return [sizes.unpacked, sizes.offset];
}

function entryAt(zip: ZipFile, directory: Buffer, at: number): [entry: StoredEntry, next: number] {
  if (at + ENTRY.bytes > directory.length || directory.readUInt32LE(at) !== ENTRY.signature) {
    throw zip.fail('its directory is damaged');
  }
  const record = directory.subarray(at);
  const nameEnd = ENTRY.bytes + record.readUInt16LE(28);
  const extraEnd = nameEnd + record.readUInt16LE(30);
  const next = extraEnd + record.readUInt16LE(32);
  if (next > record.length) throw zip.fail('its directory is damaged');
  const name = record.toString('utf8', ENTRY.bytes, nameEnd);
  if ((record.readUInt16LE(8) & 1) !== 0) throw zip.fail(`${quoted(name)} is encrypted`);
  if (record.readUInt16LE(10) !== 0) {
    throw zip.fail(`${quoted(name)} is compressed, which torch.save never does`);
  }
  const [bytes, start] = wideSizes(zip, record, record.subarray(nameEnd, extraEnd));
  const local = zip.record(start, LOCAL, quoted(name));
  const offset = start + LOCAL.bytes + local.readUInt16LE(26) + local.readUInt16LE(28);
  if (offset + bytes > zip.size) throw zip.fail(`${quoted(name)} would end after the file`);
  return [{ name, offset, bytes }, at + next];
}

function entriesOf(zip: ZipFile): Map<string, StoredEntry> {
  const { count, bytes, offset } = directoryOf(zip);
  if (bytes > LARGEST_DIRECTORY) throw zip.fail(`its directory would have ${bytes} bytes`);
  const directory = zip.read(offset, bytes, 'its directory');
  const entries = new Map<string, StoredEntry>();
  for (let i = 0, at = 0; i < count; i++) {
    const [entry, next] = entryAt(zip, directory, at);
    if (entries.has(entry.name)) throw zip.fail(`${quoted(entry.name)} comes twice`);
    entries.set(entry.name, entry);
    at = next;
  }
  return entries;
}

export interface StoredFile {
  /** By their names. */
  entries: ReadonlyMap<string, StoredEntry>;
  read: (entry: StoredEntry) => Buffer;
  fail: (why: string) => CheckpointError;
}

/**
 * Calls `use` with an open zip file.
 *
 * @throws CheckpointError where it can't be read, is none, or has entries that are compressed or encrypted
 */
export function withStoredEntries<T>(path: string, use: (file: StoredFile) => T): T {
  let zip: ZipFile | undefined;
  try {
    zip = new ZipFile(path);
    const opened = zip;
    return use({
      entries: entriesOf(opened),
      read: ({ name, offset, bytes }) => opened.read(offset, bytes, quoted(name)),
      fail: (why) => opened.fail(why),
    });
  } catch (cause) {
    if (!(cause instanceof Error && 'syscall' in cause)) throw cause;
    throw new CheckpointError(`${path} can't be read: ${systemReason(cause)}.`, { cause });
  } finally {
    zip?.close();
  }
}
