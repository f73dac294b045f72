/** The files of a folder that is being written. */
import { copyFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { throwIfAborted } from '@mlx-runners/mlx-core/errors';
import { makeFolder } from '@mlx-runners/mlx-core/whole-file';
import { fileFacts, type FileFacts } from './files.js';

export class DraftFiles {
  /** Of those that were added, by their paths in the folder. */
  readonly facts: Record<string, FileFacts> = {};
  readonly #folder: string;
  readonly #signal: AbortSignal | undefined;

  constructor(folder: string, signal: AbortSignal | undefined) {
    this.#folder = folder;
    this.#signal = signal;
  }

  /** @throws AbortedError when the signal fires before or after `write` */
  async add(path: string, write: (place: string) => unknown): Promise<void> {
    throwIfAborted(this.#signal);
    const place = join(this.#folder, path);
    makeFolder(dirname(place));
    await write(place);
    this.facts[path] = await fileFacts(place, this.#signal);
  }

  /** @param sources by the paths in the folder */
  async copy(sources: Readonly<Record<string, string>> = {}): Promise<void> {
    for (const [path, source] of Object.entries(sources)) {
      await this.add(path, (place) => copyFileSync(source, place));
    }
  }
}
