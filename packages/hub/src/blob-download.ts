/** One file of a repository into its blob: goes on where an earlier run stopped, and checks the content. */

import { HubError } from '@mlx-runners/mlx-core/errors';
import { createHash, type Hash } from 'node:crypto';
import { constants } from 'node:fs';
import { open, rename, rm, type FileHandle } from 'node:fs/promises';
import { isWebPage, requestFile, WEB_PAGE } from './hub-api.js';
import { HubUnreachableError, pause, RETRY_WAITS, type RequestOptions } from './hub-requests.js';
import { newPartial, takePartial } from './partial-blob.js';
import { fileSize } from './paths.js';
import { contentId, type RepoFile } from './repo-files.js';
import { blobPath } from './snapshot-cache.js';

interface BlobOptions extends RequestOptions {
  onBytes: (bytes: number) => void;
}

/**
 * Fetches a file for the holder of the model's lock. What was fetched when it fails or is aborted
 * stays for the next run, unless it is wrong.
 *
 * @throws HubError, HubUnreachableError, AbortedError, system errors
 */
export async function downloadBlob(
  id: string,
  commit: string,
  file: RepoFile,
  options: BlobOptions,
): Promise<void> {
  const blob = blobPath(id, file);
  if ((await fileSize(blob)) === file.size) return;
  let partial = await takePartial(blob);
  let content = await receive(id, commit, file, partial, options);
  if (!content.isRight && content.wasResumed) {
    // What an earlier run had fetched may be at fault: once more, in a new file.
    await rm(partial, { force: true });
    partial = newPartial(blob);
    content = await receive(id, commit, file, partial, options);
  }
  if (!content.isRight) {
    await rm(partial, { force: true });
    throw new HubError(`${file.path} of ${id} is not what was listed: ${content.problem}.`);
  }
  try {
    await rename(partial, blob);
  } catch (error) {
    // Another process has taken the part over and finished it.
    if ((await fileSize(blob)) !== file.size) throw error;
  }
}

interface Received {
  isRight: boolean;
  wasResumed: boolean;
  problem: string;
}

async function receive(
  id: string,
  commit: string,
  file: RepoFile,
  partial: string,
  options: BlobOptions,
): Promise<Received> {
  const handle = await open(partial, constants.O_RDWR | constants.O_CREAT);
  try {
    const writer = await BlobWriter.start(handle, file);
    const wasResumed = writer.bytes > 0;
    options.onBytes(writer.bytes);
    const isPage = await fill(writer, id, commit, file, options);
    const problem = isPage ? WEB_PAGE : writer.problem();
    if (problem === undefined) await handle.sync();
    return { isRight: problem === undefined, wasResumed, problem: problem ?? '' };
  } finally {
    await handle.close();
    if ((await fileSize(partial)) === 0 && file.size > 0) await rm(partial, { force: true });
  }
}

/** Requests what is missing until all is there. @returns whether a web page came in its place */
async function fill(
  writer: BlobWriter,
  id: string,
  commit: string,
  file: RepoFile,
  options: BlobOptions,
): Promise<boolean> {
  let most = writer.bytes;
  let vainTries = 0;
  while (writer.bytes < file.size) {
    let broken: HubUnreachableError | undefined;
    try {
      const answer = await requestFile(id, commit, file.path, writer.bytes, options);
      if (isWebPage(answer.headers) && !/\.html?$/.test(file.path)) {
        await answer.discard();
        return true;
      }
      if (answer.from !== writer.bytes) writer.restart();
      for await (const chunk of answer.chunks) {
        await writer.write(chunk);
        options.onBytes(writer.bytes);
        if (writer.bytes > file.size) return false;
      }
      if (writer.bytes === file.size) return false;
    } catch (error) {
      if (!(error instanceof HubUnreachableError)) throw error;
      broken = error;
    }
    vainTries = writer.bytes > most ? 0 : vainTries + 1;
    most = Math.max(most, writer.bytes);
    const wait = (options.retryWaits ?? RETRY_WAITS)[vainTries];
    if (wait === undefined) throw brokenOff(writer.bytes, id, file, broken);
    await pause(wait, options.signal);
  }
  return false;
}

function brokenOff(
  bytes: number,
  id: string,
  { path, size }: RepoFile,
  cause: HubUnreachableError | undefined,
): HubError {
  const state = `${bytes} of ${size} bytes of ${path} of ${id}`;
  return cause
    ? new HubUnreachableError(`Broken off again and again: ${state}. ${cause.message}`, { cause })
    : new HubError(`The server ends too early, again and again: ${state}.`);
}

/** Writes a blob from its beginning to its end, and hashes it on the way. */
class BlobWriter {
  bytes = 0;
  readonly #handle: FileHandle;
  readonly #file: RepoFile;
  #hash: Hash;

  private constructor(handle: FileHandle, file: RepoFile) {
    this.#handle = handle;
    this.#file = file;
    this.#hash = newHash(file);
  }

  /** Begins after what the file holds; it is taken for wrong when it is too long. */
  static async start(handle: FileHandle, file: RepoFile): Promise<BlobWriter> {
    const writer = new BlobWriter(handle, file);
    const buffer = Buffer.allocUnsafe(1 << 20);
    for (;;) {
      const { bytesRead } = await handle.read(buffer, 0, buffer.length, writer.bytes);
      if (bytesRead === 0) return writer;
      writer.#add(buffer.subarray(0, bytesRead));
    }
  }

  /** The content comes from its beginning again. What is there is written over, never cut off. */
  restart(): void {
    this.bytes = 0;
    this.#hash = newHash(this.#file);
  }

  async write(chunk: Uint8Array): Promise<void> {
    for (let done = 0; done < chunk.length;) {
      const { bytesWritten } = await this.#handle.write(
        chunk,
        done,
        chunk.length - done,
        this.bytes + done,
      );
      done += bytesWritten;
    }
    this.#add(chunk);
  }

  #add(chunk: Uint8Array): void {
    this.#hash.update(chunk);
    this.bytes += chunk.length;
  }

  /** What is wrong with the content, once all of it has come. */
  problem(): string | undefined {
    const { size } = this.#file;
    if (this.bytes > size) return `it has more than ${size} bytes`;
    const found = this.#hash.digest('hex');
    const expected = contentId(this.#file);
    if (found === expected) return undefined;
    const kind = this.#file.sha256 === undefined ? 'git blob id' : 'sha256';
    return `${kind} ${expected} was listed, ${found} found`;
  }
}

/** LFS files are named by their sha256, others as git names blobs. */
function newHash({ size, sha256 }: RepoFile): Hash {
  return sha256 === undefined ? createHash('sha1').update(`blob ${size}\0`) : createHash('sha256');
}
