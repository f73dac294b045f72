import { parseArgs } from 'node:util';
import { ToolError } from './tool-error.mjs';

/**
 * A script's options, from its command line. `--help` prints how the script is used and ends the process.
 *
 * @template {NonNullable<import('node:util').ParseArgsConfig['options']>} Options
 * @param {string} usage its options and what they mean
 * @param {Options} options as `parseArgs` takes them
 * @throws {ToolError} for what the script doesn't take
 */
export function scriptOptions(usage, options) {
  try {
    const { values } = parseArgs({ options: { ...options, help: { type: 'boolean' } } });
    if (!('help' in values)) {
      return /** @type {ReturnType<typeof parseArgs<{ options: Options }>>['values']} */ (values);
    }
  } catch (error) {
    throw new ToolError(`${/** @type {Error} */ (error).message}\nOptions: ${usage}`, {
      cause: error,
    });
  }
  console.log(`Options: ${usage}`);
  process.exit();
}
