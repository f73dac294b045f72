/**
 * Locks between processes, so that one fetches a model and the others wait for it. They save
 * traffic only: what is made under a lock has to be right without it as well, because no lock is
 * certain on every file system, or where a process sleeps longer than its lock is believed.
 *
 * The lock is a file that names its holder and is touched while it is held. Python's huggingface_hub
 * uses flock(2), which Node doesn't have, so the two don't exclude each other.
 */

import { throwIfAborted } from '@mlx-runners/mlx-core/errors';
import { makeFolder } from '@mlx-runners/mlx-core/whole-file';
import { randomUUID } from 'node:crypto';
import { readFile, rm, rmdir, stat, utimes, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

const HEARTBEAT = 2_000;
/** A lock that was not touched for so long is abandoned. */
const ABANDONED = 15_000;
const POLL = 200;

export interface LockOptions {
  signal?: AbortSignal | undefined;
  /** Called again and again while another process, or another call, holds the lock. */
  onWait?: (() => void | Promise<void>) | undefined;
}

/** Runs `work` while holding the lock. @throws AbortedError while waiting, system errors, what `work` throws */
export async function withLock<T>(
  path: string,
  options: LockOptions,
  work: () => Promise<T>,
): Promise<T> {
  const owner = JSON.stringify({ pid: process.pid, host: hostname(), id: randomUUID() });
  await acquire(path, owner, options);
  const touch = () => void utimes(path, new Date(), new Date()).catch(() => undefined);
  const heartbeat = setInterval(touch, HEARTBEAT);
  heartbeat.unref();
  try {
    return await work();
  } finally {
    clearInterval(heartbeat);
    await release(path, owner);
  }
}

async function acquire(
  path: string,
  owner: string,
  { signal, onWait }: LockOptions,
): Promise<void> {
  let last: { mtime: number; since: number } | undefined;
  for (;;) {
    throwIfAborted(signal);
    makeFolder(dirname(path));
    if (await create(path, owner)) return;
    const holder = await readHolder(path);
    if (!holder) continue;
    // Measured by our own clock: that of another machine may be wrong.
    if (holder.mtime !== last?.mtime) last = { mtime: holder.mtime, since: performance.now() };
    const isAbandoned = isDead(holder.owner) || performance.now() - last.since > ABANDONED;
    if (isAbandoned) {
      await release(path, holder.owner);
      continue;
    }
    await onWait?.();
    await sleep(POLL, undefined, { signal }).catch(() => throwIfAborted(signal));
  }
}

/** False when somebody has it, or the folder has just been removed. */
async function create(path: string, owner: string): Promise<boolean> {
  try {
    await writeFile(path, owner, { flag: 'wx' });
    return true;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST' || code === 'ENOENT') return false;
    throw error;
  }
}

async function readHolder(path: string): Promise<{ owner: string; mtime: number } | undefined> {
  try {
    return { owner: await readFile(path, 'utf8'), mtime: (await stat(path)).mtimeMs };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

function isDead(owner: string): boolean {
  try {
    const { pid, host } = JSON.parse(owner) as { pid: number; host: string };
    if (host !== hostname()) return false;
    process.kill(pid, 0);
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ESRCH';
  }
}

/** Removes the lock while it is that of `owner`, and its folder when that is empty. */
async function release(path: string, owner: string): Promise<void> {
  const holder = await readHolder(path).catch(() => undefined);
  if (holder?.owner !== owner) return;
  await rm(path, { force: true });
  await rmdir(dirname(path)).catch(() => undefined);
}
