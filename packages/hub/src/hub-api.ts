/** The part of the hub's API that is used: commits, lists of files, contents of files. */

import { HubError, printable } from '@mlx-runners/mlx-core/errors';
import { z } from 'zod';
import { hubEndpoint, hubTimeouts } from './environment.js';
import { askHub, type HubAnswer, type HubRequest, type RequestOptions } from './hub-requests.js';
import { isRepoFile, type RepoFile } from './repo-files.js';

export interface ApiOptions extends RequestOptions {
  /** How long to wait for an answer, in ms. Default: that of the environment. */
  answerTimeout?: number | undefined;
}

const revisionInfo = z.object({ sha: z.string().regex(/^[0-9a-f]{40}$/) });

/** The commit that a branch, tag or short commit id stands for. @throws HubError */
export async function resolveCommit(
  id: string,
  revision: string,
  options: ApiOptions,
): Promise<string> {
  const url = `${hubEndpoint()}/api/models/${id}/revision/${encodeURIComponent(revision)}`;
  const { value } = await askJson(url, { id, revision }, revisionInfo, options);
  return value.sha;
}

const treePage = z.array(
  z.object({
    type: z.string(),
    path: z.string(),
    size: z.int().nonnegative(),
    oid: z.string(),
    lfs: z.object({ oid: z.string() }).optional(),
    xetHash: z.string().optional(),
  }),
);

/** A page has up to 1,000 entries. */
const MOST_PAGES = 1000;

/** All files of a repository at a commit. @throws HubError */
export async function listRepoFiles(
  id: string,
  commit: string,
  options: ApiOptions,
): Promise<RepoFile[]> {
  const files: RepoFile[] = [];
  let url: string | undefined = `${hubEndpoint()}/api/models/${id}/tree/${commit}?recursive=true`;
  const asked = new Set<string>();
  while (url !== undefined) {
    if (asked.has(url) || asked.size === MOST_PAGES) {
      throw new HubError(`${hubEndpoint()} lists the files of ${id} without end: refused.`);
    }
    asked.add(url);
    const page = await askJson(url, { id, revision: commit }, treePage, options);
    for (const { type, path, size, oid, lfs, xetHash } of page.value) {
      if (type !== 'file') continue;
      const file = { path, size, gitOid: oid, sha256: lfs?.oid, xetHash };
      // Names and ids become paths in the cache.
      if (!isRepoFile(file)) {
        throw new HubError(
          `${id} lists the file "${printable(path)}" with the id "${printable(lfs?.oid ?? oid)}": refused.`,
        );
      }
      files.push(file);
    }
    url = nextPage(page.answer);
  }
  return files;
}

/** `Link: <address>; rel="next"`; servers that stand in for the hub may give a relative address. */
function nextPage({ headers, url }: HubAnswer): string | undefined {
  const next = /<([^>]+)>\s*;[^,]*\brel="?next"?/.exec(headers.get('link') ?? '')?.[1];
  return next === undefined ? undefined : new URL(next, url).href;
}

/** In bytes; a page of a listing has about 300 for each entry. */
const LONGEST_JSON = 64e6;

async function askJson<T>(
  url: string,
  subject: HubRequest['subject'],
  schema: z.ZodType<T>,
  { answerTimeout = hubTimeouts().answer, ...options }: ApiOptions,
): Promise<{ value: T; answer: HubAnswer }> {
  const headers = { accept: 'application/json' };
  const answer = await askHub({ ...options, url, headers, timeout: answerTimeout, subject });
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of answer.chunks) {
    bytes += chunk.length;
    // Thrown out of the loop, it ends the transfer.
    if (bytes > LONGEST_JSON) {
      throw new HubError(`${unusableAnswer(subject.id)}: it is larger than 64 MB.`);
    }
    chunks.push(chunk);
  }
  const text = Buffer.concat(chunks).toString('utf8');
  try {
    return { value: schema.parse(JSON.parse(text)), answer };
  } catch (error) {
    throw new HubError(`${unusableAnswer(subject.id)}: ${unusable(answer, error)}.`, {
      cause: error,
    });
  }
}

function unusableAnswer(id: string): string {
  return `Unusable answer of ${hubEndpoint()} for ${id}`;
}

function unusable({ headers }: HubAnswer, error: unknown): string {
  if (isWebPage(headers)) return WEB_PAGE;
  if (!(error instanceof z.ZodError)) return 'it is not JSON';
  const { path, message } = error.issues[0];
  return `${path.join('.') || 'it'}: ${message}`;
}

export const WEB_PAGE = 'it is a web page; a proxy or a login page may stand between';

export function isWebPage(headers: Headers): boolean {
  return headers.get('content-type')?.startsWith('text/html') ?? false;
}

/**
 * The content of a file from byte `from` on, or from the beginning where the server can't or won't
 * go on there: `answer.from` says which.
 *
 * @throws HubError, HubUnreachableError, AbortedError
 */
export async function requestFile(
  id: string,
  commit: string,
  file: string,
  from: number,
  options: RequestOptions,
): Promise<HubAnswer & { from: number }> {
  const path = file.split('/').map(encodeURIComponent).join('/');
  const answer = await askHub({
    ...options,
    url: `${hubEndpoint()}/${id}/resolve/${commit}/${path}`,
    // Compressed answers could be neither counted nor continued.
    headers: { 'accept-encoding': 'identity', ...(from > 0 && { range: `bytes=${from}-` }) },
    timeout: hubTimeouts().download,
    subject: { id, revision: commit, file },
    accept: [416],
  });
  if (answer.status === 206 && isRangeFrom(from, answer.headers)) return { ...answer, from };
  if (answer.status === 200) return { ...answer, from: 0 };
  await answer.discard();
  // 416: nothing lies there; 206: another part than the one asked for.
  if (from > 0) return requestFile(id, commit, file, 0, options);
  throw new HubError(
    `${hubEndpoint()} answered ${answer.status} for ${file} of ${id}, without its content.`,
  );
}

function isRangeFrom(from: number, headers: Headers): boolean {
  const start = /^bytes (\d+)-/.exec(headers.get('content-range') ?? '')?.[1];
  const encoding = headers.get('content-encoding') ?? 'identity';
  return from > 0 && Number(start) === from && encoding === 'identity';
}
