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

/**
 * The number that an option gives.
 *
 * @param {string} name the option, for the message
 * @param {string} text its value
 * @throws {ToolError} for what is no number above 0
 */
export function positiveNumber(name, text) {
  const number = Number(text);
  if (number > 0 && Number.isFinite(number)) return number;
  throw new ToolError(`${name} has to be a number above 0, not '${text}'.`);
}

/**
 * The whole number that an option gives.
 *
 * @param {string} name the option, for the message
 * @param {string} text its value
 * @throws {ToolError} for what is none, is negative or not exact in JavaScript
 */
export function wholeNumber(name, text) {
  const number = Number(text);
  if (/^\d+$/.test(text) && Number.isSafeInteger(number)) return number;
  throw new ToolError(`${name} has to be a whole number from 0 to 2^53 - 1, not '${text}'.`);
}
