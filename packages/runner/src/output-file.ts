import { randomUUID } from 'node:crypto';
import { rmSync } from 'node:fs';
import { mkdir, open, rename, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { onInterrupt } from './interruption.js';

/**
 * Writes a file whole or not at all: beside its place first, then renamed. Makes missing folders,
 * replaces an existing file, and leaves nothing behind on an error or an interrupt.
 */
export async function writeOutputFile(path: string, content: string | Uint8Array): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  const partial = join(dirname(path), `.${basename(path)}.${randomUUID()}.partial`);
  const forget = onInterrupt(() => rmSync(partial, { force: true }));
  try {
    // `wx`: never through a link that someone else put there.
    const file = await open(partial, 'wx');
    try {
      await file.writeFile(content);
    } finally {
      await file.close();
    }
    await rename(partial, path);
  } catch (error) {
    await rm(partial, { force: true });
    throw error;
  } finally {
    forget();
  }
}
