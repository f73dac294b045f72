/** Reading a whole audio file, device or stream into memory, within a limit and with cancellation. */
import { close, constants, createReadStream, fstat, open, read, stat } from 'node:fs';
import { Socket } from 'node:net';
import { totalmem } from 'node:os';
import { Readable } from 'node:stream';
import { isatty } from 'node:tty';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import {
  AbortedError,
  AudioError,
  MlxRunnersError,
  systemReason,
  throwIfAborted,
} from '@mlx-runners/mlx-core/errors';

// Descriptors instead of FileHandles, because a socket takes over the one that it reads.
const openFile = promisify(open);
const statFile = promisify(fstat);
const statPath = promisify(stat);
const readFile = promisify(read);
const closeFile = promisify(close);

const READ_SIZE = 2 ** 26;

// Two letters at least: C:// is a drive.
const ADDRESS = /^([a-z][a-z\d+.-]+:)\/\//i;
const STDIN = '/dev/stdin';
const INHERITED = /^\/(?:dev\/stdin|(?:dev|proc\/self)\/fd\/(\d+))$/;

/**
 * The most bytes of one audio: 4 GiB, which is all that a WAV file holds, or a quarter of the
 * memory, since decoding takes about three times as much again.
 */
const MAX_BYTES = Math.min(2 ** 32, Math.floor(memoryBytes() / 4));

/** Sees each chunk with the bytes before it, and throws where the rest need not be read. */
export type Inspect<Chunk> = (chunk: Chunk, bytesBefore: number) => void;

/**
 * All bytes of a file; pipes and devices are read to their end, `/dev/stdin` too where it is a pipe
 * or socket. A pipe that nobody writes to does not keep `signal` from working.
 *
 * @throws AudioError where it can't be read or is too large, AbortedError when `signal` fires.
 */
export async function readAudioFile(
  file: string | URL,
  inspect: Inspect<Uint8Array>,
  signal: AbortSignal | undefined,
): Promise<Uint8Array> {
  const path = localPath(file);
  throwIfAborted(signal);
  try {
    const inherited = inheritedStream(path);
    if (inherited) return await readToEnd(inherited, inspect, signal);
    // Opened to block, a pipe without a writer would hold a thread, and the end of the process.
    const descriptor = await openFile(path, constants.O_RDONLY | constants.O_NONBLOCK);
    return await readOpened(descriptor, inspect, signal);
  } catch (error) {
    throw unreadable(error, path);
  }
}

/**
 * The first bytes of a file, to tell early whether it can be read and what it is; undefined for pipes
 * and devices, which can be read only once.
 *
 * @throws AudioError where `readAudioFile` would fail for certain
 */
export async function readStart(
  file: string | URL,
  length: number,
): Promise<Uint8Array | undefined> {
  const path = localPath(file);
  if (path === STDIN && process.stdin.isTTY) terminal();
  if (INHERITED.test(path)) return undefined;
  try {
    const stats = await statPath(path);
    if (!stats.isFile() && !stats.isDirectory()) return undefined;
    checkSize(stats.size);
    const descriptor = await openFile(path, constants.O_RDONLY);
    try {
      const { bytesRead, buffer } = await readFile(
        descriptor,
        new Uint8Array(length),
        0,
        length,
        0,
      );
      return buffer.subarray(0, bytesRead);
    } finally {
      await closeFile(descriptor);
    }
  } catch (error) {
    throw unreadable(error, path);
  }
}

function unreadable(error: unknown, path: string): unknown {
  if (error instanceof MlxRunnersError) return error;
  const why = systemReason(error);
  const what = path === STDIN ? audioName(path) : `the audio file ${audioName(path)}`;
  return new AudioError(`Cannot read ${what}: ${why}.`, { cause: error });
}

/** What messages call a file. */
export function audioName(file: string | URL): string {
  const path = file instanceof URL ? file.pathname : file;
  return path === STDIN ? 'standard input' : `'${path}'`;
}

function localPath(file: string | URL): string {
  const scheme = typeof file === 'string' ? ADDRESS.exec(file)?.[1] : file.protocol;
  if (scheme === undefined) return file as string;
  if (scheme === 'file:') {
    try {
      return fileURLToPath(file);
    } catch (cause) {
      throw new AudioError(`${String(file)} is no file: URL of this machine.`, { cause });
    }
  }
  throw new AudioError(
    `Cannot read audio from '${String(file)}': only files are read, no ${scheme} addresses. ` +
      'Fetch it first, and give the file or its bytes.',
  );
}

/**
 * A pipe that the process was started with. Opened anew by its name it would never end where its
 * writer is gone already, and a socket can't be opened by a name.
 */
function inheritedStream(path: string): Readable | undefined {
  if (path === STDIN) return process.stdin.isTTY ? terminal() : process.stdin;
  const descriptor = INHERITED.exec(path)?.[1];
  if (descriptor === undefined) return undefined;
  try {
    return new Socket({ fd: Number(descriptor), readable: true, writable: false });
  } catch {
    return undefined; // It is a file or device, and has a name of its own.
  }
}

function terminal(): never {
  throw new AudioError(
    'Standard input is a terminal: pipe audio into it, as in `cat audio.wav | …`.',
  );
}

async function readOpened(
  descriptor: number,
  inspect: Inspect<Uint8Array>,
  signal: AbortSignal | undefined,
): Promise<Uint8Array> {
  let isOurs = true;
  try {
    const stats = await statFile(descriptor);
    if (stats.isFile()) return await readRegularFile(descriptor, stats.size, signal);
    if (isatty(descriptor)) terminal();
    // Either closes the descriptor when it ends or is destroyed.
    const stream = stats.isFIFO()
      ? new Socket({ fd: descriptor, readable: true, writable: false })
      : createReadStream('', { fd: descriptor });
    isOurs = false;
    return await readToEnd(stream, inspect, signal);
  } finally {
    if (isOurs) await closeFile(descriptor);
  }
}

// fs.readFile refuses files of 2 GiB and more, which hours of studio audio reach.
async function readRegularFile(
  descriptor: number,
  size: number,
  signal: AbortSignal | undefined,
): Promise<Uint8Array> {
  checkSize(size);
  const bytes = new Uint8Array(size);
  let length = 0;
  while (length < size) {
    throwIfAborted(signal);
    const piece = Math.min(READ_SIZE, size - length);
    const { bytesRead } = await readFile(descriptor, bytes, length, piece, length);
    if (bytesRead === 0) break;
    length += bytesRead;
  }
  return bytes.subarray(0, length);
}

/** All bytes of a stream of our own, which would keep the process alive while it waits. */
async function readToEnd(
  stream: Readable,
  inspect: Inspect<Uint8Array>,
  signal: AbortSignal | undefined,
): Promise<Uint8Array> {
  try {
    return joinBytes(await collect(stream as AsyncIterable<Uint8Array>, inspect, signal));
  } catch (error) {
    stream.destroy();
    throw error;
  }
}

/**
 * All chunks of a stream. A stream that stalls does not keep `signal` from working.
 *
 * @throws AudioError past the limit, AbortedError when `signal` fires, and what `inspect` throws;
 *   a generator is ended then, a stream only read no further: destroyed, the body of a request
 *   would take the connection with it, and the answer.
 */
export async function collect<Chunk extends { byteLength: number } | { samples: Float32Array }>(
  stream: AsyncIterable<Chunk>,
  inspect: Inspect<Chunk>,
  signal: AbortSignal | undefined,
): Promise<Chunk[]> {
  throwIfAborted(signal);
  const iterator = reading(stream);
  const listening = new AbortController();
  const aborted = new Promise<never>((_, reject) => {
    const onAbort = () => {
      reject(new AbortedError(undefined, { cause: signal?.reason }));
    };
    signal?.addEventListener('abort', onAbort, { once: true, signal: listening.signal });
  });
  const chunks: Chunk[] = [];
  let bytes = 0;
  try {
    for (;;) {
      const next = await Promise.race([iterator.next(), aborted]);
      if (next.done) return chunks;
      inspect(next.value, bytes);
      bytes += sizeOf(next.value);
      checkSize(bytes);
      chunks.push(next.value);
    }
  } catch (error) {
    // Not awaited, since a generator that hangs in next() would hang here, too.
    void end(iterator);
    throw error;
  } finally {
    listening.abort();
  }
}

/** What a stream throws now, at once or later, no longer matters. */
async function end(iterator: AsyncIterator<unknown>): Promise<void> {
  try {
    await iterator.return?.();
  } catch {
    // The error that ended the reading is thrown.
  }
}

function reading<Chunk>(stream: AsyncIterable<Chunk>): AsyncIterator<Chunk> {
  if (stream instanceof Readable) {
    return stream.iterator({ destroyOnReturn: false }) as AsyncIterator<Chunk>;
  }
  if (stream instanceof ReadableStream) {
    return stream.values({ preventCancel: true }) as AsyncIterator<Chunk>;
  }
  return stream[Symbol.asyncIterator]();
}

function sizeOf(chunk: { byteLength: number } | { samples: Float32Array }): number {
  return 'byteLength' in chunk ? chunk.byteLength : chunk.samples.byteLength;
}

function checkSize(bytes: number): void {
  if (bytes <= MAX_BYTES) return;
  const limit = (MAX_BYTES / 2 ** 30).toFixed(1);
  throw new AudioError(
    `The audio is larger than ${limit} GiB, the most that is read at once here (4 GiB, or a ` +
      'quarter of the memory): cut it into parts.',
  );
}

function memoryBytes(): number {
  // A container's limit; 0 or larger than the memory where there is none.
  return Math.min(totalmem(), process.constrainedMemory() || Infinity);
}

export function joinBytes(chunks: Uint8Array[]): Uint8Array {
  if (chunks.length === 1) return chunks[0];
  const bytes = new Uint8Array(chunks.reduce((total, chunk) => total + chunk.length, 0));
  let length = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, length);
    length += chunk.length;
  }
  return bytes;
}
