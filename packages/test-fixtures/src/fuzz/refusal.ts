/** What an error has to be like that a damaged file gives. */

const LONGEST_MESSAGE = 500;

/** What JavaScript, its engine and libraries say of their own accord. */
const RAW_MESSAGES =
  /Cannot (?:read|convert|destructure|set|use|mix)|is not (?:a function|iterable|defined)|undefined|\[object |Maximum call stack|Invalid (?:array|string|typed array|regular expression)|^\s+at /m;

/**
 * Checks an error: of the class, naming the file, of one short line, and not JavaScript's own words.
 *
 * @throws the error itself where it is of another class, an Error that quotes it where it is no good
 */
export function expectRefusal(
  error: unknown,
  kind: new (message: string) => Error,
  file: string,
): void {
  if (!(error instanceof kind)) throw error;
  const own = error.message.replaceAll(file, '');
  const faults = [
    ...(error.message.includes(file) ? [] : ['does not name the file']),
    ...(own.length > LONGEST_MESSAGE ? [`has ${own.length} characters`] : []),
    ...(/\p{Cc}/u.test(own) ? ['holds control characters'] : []),
    ...(RAW_MESSAGES.test(own) ? ["has JavaScript's words"] : []),
  ];
  if (faults.length > 0) {
    throw new Error(`The message ${faults.join(', ')}: ${error.message.slice(0, 2000)}`, {
      cause: error,
    });
  }
}
