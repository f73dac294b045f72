/** The tokenizer, chat template and defaults of a model as files, for an export's folder. */
import { existsSync, readdirSync, rmSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onInterrupt } from '@mlx-runners/runner';
import type { DecoderCheckpoint } from '../checkpoint.js';
import { writeTexts } from '../converted-texts.js';

export class TextFiles {
  /** Where they lie, by the paths that they get. */
  readonly paths: Readonly<Record<string, string>>;
  readonly #remove: () => void;

  private constructor(paths: Readonly<Record<string, string>>, remove: () => void) {
    this.paths = paths;
    this.#remove = remove;
  }

  /**
   * @param source as it was given to `readDecoderCheckpoint`
   * @param tokenizer in the place of the checkpoint's own
   */
  static async of(
    source: string,
    checkpoint: DecoderCheckpoint,
    tokenizer?: string,
  ): Promise<TextFiles> {
    const folder = await mkdtemp(join(tmpdir(), 'llm-export-'));
    const remove = (): void => rmSync(folder, { recursive: true, force: true });
    const forget = onInterrupt(remove);
    const dispose = (): void => {
      forget();
      remove();
    };
    try {
      await writeTexts(folder, source, checkpoint, tokenizer);
      const names = readdirSync(folder, { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1));
      const paths = Object.fromEntries(names.map((name) => [name, join(folder, name)]));
      const config = join(source, 'config.json');
      if (existsSync(config)) paths['config.json'] = config;
      return new TextFiles(paths, dispose);
    } catch (error) {
      dispose();
      throw error;
    }
  }

  dispose(): void {
    this.#remove();
  }
}
