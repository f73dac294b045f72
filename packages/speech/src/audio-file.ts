/** Reading a whole audio file or stream into memory, with cancellation. */
import { open, type FileHandle } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { AbortedError, AudioError, throwIfAborted } from '@mlx-runners/mlx-core/errors';

const READ_SIZE = 2 ** 26;

const REASONS: Record<string, string> = {
  ENOENT: 'there is no such file',
  EACCES: 'permission denied',
  EPERM: 'permission denied',
  EISDIR: 'it is a folder',
  ENOTDIR: 'a part of its path is not a folder',
};

/**
 * All bytes of a file; pipes and devices are read to their end.
 *
 * @throws AudioError where it can't be read, AbortedError when `signal` fires.
 */
export async function readAudioFile(
  file: string | URL,
  signal: AbortSignal | undefined,
): Promise<Uint8Array> {
  const path = localPath(file);
  try {
    const handle = await open(path);
    const stats = await handle.stat();
    if (stats.isFile()) return await readRegularFile(handle, stats.size, signal);
    // Pipes and devices. The stream closes the handle, even where a read never returns.
    const stream: AsyncIterable<Uint8Array> = handle.createReadStream();
    return joinBytes(await collect(stream, signal));
  } catch (error) {
    if (error instanceof AbortedError) throw error;
    const { code, message } = error as NodeJS.ErrnoException;
    const reason = (code && REASONS[code]) ?? message;
    throw new AudioError(`Cannot read the audio file '${path}': ${reason}.`, { cause: error });
  }
}

function localPath(file: string | URL): string {
  if (typeof file === 'string') return file;
  if (file.protocol === 'file:') return fileURLToPath(file);
  throw new AudioError(
    `Cannot read audio from a ${file.protocol} URL; only file: URLs are read. ` +
      'Fetch it and pass its bytes instead.',
  );
}

// fs.readFile refuses files of 2 GiB and more, which hours of studio audio reach.
async function readRegularFile(
  handle: FileHandle,
  size: number,
  signal: AbortSignal | undefined,
): Promise<Uint8Array> {
  try {
    const bytes = new Uint8Array(size);
    let length = 0;
    while (length < size) {
      throwIfAborted(signal);
      const piece = Math.min(READ_SIZE, size - length);
      const { bytesRead } = await handle.read(bytes, length, piece, length);
      if (bytesRead === 0) break;
      length += bytesRead;
    }
    return bytes.subarray(0, length);
  } finally {
    await handle.close();
  }
}

/** All chunks of a stream. A stream that stalls does not keep `signal` from working. */
export async function collect<Chunk>(
  stream: AsyncIterable<Chunk>,
  signal: AbortSignal | undefined,
): Promise<Chunk[]> {
  throwIfAborted(signal);
  const iterator = stream[Symbol.asyncIterator]();
  const listening = new AbortController();
  const aborted = new Promise<never>((_, reject) => {
    const onAbort = () => {
      reject(new AbortedError());
    };
    signal?.addEventListener('abort', onAbort, { once: true, signal: listening.signal });
  });
  const chunks: Chunk[] = [];
  try {
    for (;;) {
      const next = await Promise.race([iterator.next(), aborted]);
      if (next.done) return chunks;
      chunks.push(next.value);
    }
  } catch (error) {
    // Not awaited, since a generator that hangs in next() would hang here, too; and what it throws
    // now no longer matters.
    iterator.return?.().catch(String);
    throw error;
  } finally {
    listening.abort();
  }
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
