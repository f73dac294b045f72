import { text } from 'node:stream/consumers';
import { UsageError } from '@mlx-runners/mlx-core/errors';

/**
 * What `--prompt` names: itself, or standard input for `-`, without the line break at its end.
 *
 * @throws UsageError for an input that is empty
 */
export async function readPrompt(given: string): Promise<string> {
  if (given !== '-') return given;
  const read = (await text(process.stdin)).replace(/\r?\n$/, '');
  if (read.trim() === '') throw new UsageError('Standard input has no prompt: it is empty.');
  return read;
}
