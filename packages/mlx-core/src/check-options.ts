/**
 * Options of calls, held against a schema of zod's. This file loads nothing native, nor zod itself.
 */
import { inspect } from 'node:util';
import { nameHint, printable, UsageError } from './errors.js';

/** A `z.strictObject`. */
export interface OptionsSchema<Options> {
  readonly shape: object;
  safeParse(
    value: unknown,
    context: { reportInput: true },
  ): { success: true; data: Options } | { success: false; error: { issues: readonly Issue[] } };
}

interface Issue {
  readonly code?: string;
  readonly path: readonly PropertyKey[];
  readonly message: string;
  readonly input?: unknown;
  /** Unknown names. */
  readonly keys?: readonly string[];
  /** What is wrong with a name. */
  readonly issues?: readonly { readonly message: string }[];
}

/**
 * Holds the options of a call against their schema, a `z.strictObject`.
 *
 * @param call what the options are of, such as `load()`, for the message
 * @throws UsageError naming the first option that is unknown or wrong, and what would be right
 */
export function checkOptions<Options>(
  call: string,
  schema: OptionsSchema<Options>,
  options: unknown,
): Options {
  const parsed = schema.safeParse(options, { reportInput: true });
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const place = printable(issue.path.map(String).join('.'));
  if (issue.path.length === 0 && issue.keys) {
    const [unknown] = issue.keys;
    const hint = nameHint(unknown, Object.keys(schema.shape));
    throw new UsageError(`${call} has no option ${printable(unknown)}: ${hint}`);
  }
  if (issue.path.length === 0) {
    throw new UsageError(`The options of ${call} must be an object, not ${shown(options)}.`);
  }
  const reason = issueReason(issue);
  if (issue.keys) {
    throw new UsageError(`${place} has no ${printable(issue.keys[0])}: it ${reason}.`);
  }
  throw new UsageError(`${place} ${reason}, not ${shown(issue.input)}.`);
}

/** What is wrong; of a name in a record, what its schema says of it. */
export function issueReason({ message, code, issues }: Issue): string {
  return code === 'invalid_key' && issues ? issues[0].message : message;
}

function shown(value: unknown): string {
  return inspect(value, {
    depth: 0,
    breakLength: Infinity,
    maxArrayLength: 5,
    maxStringLength: 50,
  });
}
