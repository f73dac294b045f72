import { createHash } from 'node:crypto';
import { rmSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ToolError } from './tool-error.mjs';

/**
 * Does `work` while nobody else on this machine does any under the same name. The lock is a socket, which the system
 * takes from its holder when that ends, however that may be.
 *
 * @template Result
 * @param {string} name
 * @param {(pid: string) => void} onWait called once when another process, `pid`, has to be waited for
 * @param {() => Promise<Result>} work
 * @returns {Promise<Result>}
 */
export async function withLock(name, onWait, work) {
  const address = socketAddress(name);
  let waits = false;
  let release = await acquire(address);
  while (!release) {
    await holderEnds(address, (pid) => {
      if (!waits) onWait(pid);
      waits = true;
    });
    release = await acquire(address);
  }
  try {
    return await work();
  } finally {
    release();
  }
}

/** Short, as such addresses have to be. Linux has some that are no files. */
function socketAddress(/** @type {string} */ name) {
  const id = `mlx-runners-${createHash('sha256').update(name).digest('hex').slice(0, 16)}`;
  return process.platform === 'linux' ? `\0${id}` : join(tmpdir(), `${id}.sock`);
}

/** @returns {Promise<(() => void) | undefined>} what releases the lock; nothing when it is held */
function acquire(/** @type {string} */ address) {
  /** @type {Set<import('node:net').Socket>} */
  const waiting = new Set();
  const server = createServer((socket) => {
    waiting.add(socket);
    socket.on('error', () => undefined).write(String(process.pid));
  });
  return new Promise((resolve, reject) => {
    server.on('error', (/** @type {NodeJS.ErrnoException} */ error) => {
      if (error.code === 'EADDRINUSE') resolve(undefined);
      else reject(new ToolError(`No lock can be had: ${error.message}`));
    });
    server.listen(address, () => {
      server.unref();
      resolve(() => {
        server.close();
        for (const socket of waiting) socket.destroy();
      });
    });
  });
}

/** @returns {Promise<void>} */
function holderEnds(/** @type {string} */ address, /** @type {(pid: string) => void} */ onHolder) {
  return new Promise((resolve) => {
    const socket = connect(address);
    socket.on('data', (pid) => onHolder(pid.toString()));
    socket.on('error', (/** @type {NodeJS.ErrnoException} */ error) => {
      // The file of a holder that was killed.
      if (error.code === 'ECONNREFUSED' && !address.startsWith('\0'))
        rmSync(address, { force: true });
    });
    socket.on('close', () => resolve());
  });
}
