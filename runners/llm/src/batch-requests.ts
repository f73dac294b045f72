/** The prompts of `llm batch`. */
import { readFile } from 'node:fs/promises';
import { text } from 'node:stream/consumers';
import { FileError, nameHint, systemReason, UsageError } from '@mlx-runners/mlx-core';
import { userPath } from '@mlx-runners/runner';
import { z } from 'zod';

const requestSchema = z
  .strictObject(
    {
      id: z
        .union(
          [z.string().min(1, 'must not be empty'), z.int()],
          'must be a text or a whole number',
        )
        .optional(),
      prompt: z.string('must be a text').optional(),
      messages: z
        .array(
          z.looseObject({ role: z.string('must be a text') }, 'must be an object'),
          'must be a list',
        )
        .min(1, 'must have one at least')
        .optional(),
    },
    'must be an object',
  )
  .refine(
    ({ prompt, messages }) => (prompt === undefined) !== (messages === undefined),
    'needs either "prompt" or "messages"',
  );

export type BatchRequest = z.infer<typeof requestSchema>;

/**
 * @throws UsageError naming the line that is none, for an input without prompts, and for equal ids; FileError for a
 *   file that can't be read
 */
export async function readRequests(
  prompts: readonly string[],
  input: string | undefined,
): Promise<BatchRequest[]> {
  const requests: BatchRequest[] = prompts.map((prompt) => ({ prompt }));
  if (input !== undefined) requests.push(...(await readInput(input)));
  checkDistinct(requests);
  return requests;
}

async function readInput(input: string): Promise<BatchRequest[]> {
  const isStandard = input === '-';
  const content = isStandard ? await text(process.stdin) : await readText(userPath(input));
  const name = isStandard ? 'standard input' : input;
  const isJson = input.endsWith('.jsonl') || (isStandard && content.trimStart().startsWith('{'));
  const requests: BatchRequest[] = [];
  for (const [i, line] of content.split(/\r?\n/).entries()) {
    if (line.trim() === '') continue;
    requests.push(isJson ? parsed(line, `Line ${i + 1} of ${name}`) : { prompt: line });
  }
  if (requests.length === 0) throw new UsageError(`There are no prompts in ${name}.`);
  return requests;
}

async function readText(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (cause) {
    throw new FileError(`${path} can't be read: ${systemReason(cause)}.`, { cause });
  }
}

/** @param place what errors call it */
function parsed(line: string, place: string): BatchRequest {
  let json: unknown;
  try {
    json = JSON.parse(line);
  } catch (cause) {
    throw new UsageError(`${place} is not JSON: ${(cause as Error).message}.`, { cause });
  }
  const { data, error } = requestSchema.safeParse(json);
  if (data) return data;
  const [issue] = error.issues;
  if (issue.code === 'unrecognized_keys') {
    const hint = nameHint(issue.keys[0], ['id', 'prompt', 'messages']);
    throw new UsageError(`${place} has the unknown key ${JSON.stringify(issue.keys[0])}: ${hint}`);
  }
  const of = issue.path.length > 0 ? `: ${issue.path.join('.')}` : '';
  throw new UsageError(`${place}${of} ${issue.message}.`, { cause: error });
}

function checkDistinct(requests: readonly BatchRequest[]): void {
  const seen = new Set<string>();
  for (const [i, { id = i }] of requests.entries()) {
    if (seen.has(String(id))) throw new UsageError(`Two prompts have the id ${id}.`);
    seen.add(String(id));
  }
}

/**
 * The name of the file of each answer: its id, in which `_` stands for all but letters, digits, `_`, `.` and `-`.
 *
 * @throws UsageError for ids that become one name, also where names differ only in upper and lower case
 */
export function fileNames(requests: readonly BatchRequest[]): string[] {
  const taken = new Map<string, string | number>();
  return requests.map((request, i) => {
    const id = request.id ?? i;
    const name = `${String(id).replace(/[^\w.-]/g, '_')}.txt`;
    const other = taken.get(name.toLowerCase());
    if (other !== undefined) {
      throw new UsageError(
        `The prompts ${JSON.stringify(other)} and ${JSON.stringify(id)} would both be written as ${name}: rename one.`,
      );
    }
    taken.set(name.toLowerCase(), id);
    return name;
  });
}
