/** Requests to the Hugging Face hub, or to a server that speaks its API (`HF_ENDPOINT`). */

import { HubApiError, listFiles, modelInfo } from '@huggingface/hub';
import {
  AbortedError,
  HubError,
  MlxRunnersError,
  throwIfAborted,
} from '@mlx-runners/mlx-core/errors';
import { setTimeout as sleep } from 'node:timers/promises';
import { hubEndpoint, hubToken } from './environment.js';
import { isRelativeFile } from './paths.js';
import type { RepoFile } from './repo-files.js';

/** No connection to the hub: then a mirror may stand in. */
export class HubUnreachableError extends HubError {}

export interface RequestOptions {
  signal?: AbortSignal | undefined;
  /** How long to wait for the answer to begin, in ms. */
  timeout?: number | undefined;
}

const ANSWER_TIMEOUT = 30_000;
/** Waits before the second, third and fourth try, in ms. */
export const RETRY_WAITS = [250, 500, 1000];

/** The commit that a branch, tag or commit id stands for. @throws HubError */
export async function resolveCommit(
  id: string,
  revision: string,
  options: RequestOptions,
): Promise<string> {
  const { sha } = await explained(id, revision, options, () =>
    modelInfo({
      name: id,
      revision,
      additionalFields: ['sha'],
      hubUrl: hubEndpoint(),
      fetch: hubFetch(options),
    }),
  );
  if (!/^[0-9a-f]{40}$/.test(sha)) {
    throw new HubError(`${hubEndpoint()} gave "${sha}" as the commit of ${id}.`);
  }
  return sha;
}

/** All files of a repository at a commit. @throws HubError */
export async function listRepoFiles(
  id: string,
  commit: string,
  options: RequestOptions,
): Promise<RepoFile[]> {
  const files: RepoFile[] = [];
  await explained(id, commit, options, async () => {
    const entries = listFiles({
      repo: { type: 'model', name: id },
      revision: commit,
      recursive: true,
      hubUrl: hubEndpoint(),
      fetch: hubFetch(options),
    });
    for await (const { type, path, size, oid = '', lfs } of entries) {
      if (type === 'file') files.push(checkedFile(id, { path, size, oid: lfs?.oid ?? oid }));
    }
  });
  return files;
}

/** Names and ids become paths in the cache. */
function checkedFile(id: string, file: RepoFile): RepoFile {
  if (isRelativeFile(file.path) && /^([0-9a-f]{40}|[0-9a-f]{64})$/.test(file.oid)) return file;
  throw new HubError(`${id} lists the file "${file.path}" with the id "${file.oid}": refused.`);
}

/** The content of a file from byte `from` on; status 200 means that it begins at 0 all the same. */
export async function requestFile(
  id: string,
  commit: string,
  path: string,
  from: number,
  options: RequestOptions,
): Promise<Response> {
  const name = path.split('/').map(encodeURIComponent).join('/');
  return explained(id, commit, options, async () => {
    const response = await hubFetch(options)(`${hubEndpoint()}/${id}/resolve/${commit}/${name}`, {
      // Compressed answers could be neither counted nor continued.
      headers: { 'accept-encoding': 'identity', ...(from > 0 && { range: `bytes=${from}-` }) },
    });
    if (!response.ok) {
      await response.body?.cancel();
      throw new HubApiError(response.url, response.status, undefined, `${path}: not served`);
    }
    return response;
  });
}

/** `fetch` with our headers, a limit for the answer to begin, and retries where they can help. */
function hubFetch({ signal, timeout = ANSWER_TIMEOUT }: RequestOptions): typeof fetch {
  return async (input, init) => {
    for (let attempt = 0; ; attempt++) {
      const limit = new AbortController();
      const timer = setTimeout(
        () => limit.abort(new HubUnreachableError(`no answer within ${timeout / 1000} s`)),
        timeout,
      );
      try {
        const response = await fetch(input, {
          ...init,
          headers: requestHeaders(init?.headers),
          signal: AbortSignal.any([limit.signal, ...(signal ? [signal] : [])]),
        });
        const wait = RETRY_WAITS[attempt];
        if (!mayPass(response.status) || wait === undefined) return response;
        await response.body?.cancel();
        await sleep(wait, undefined, { signal });
      } finally {
        clearTimeout(timer);
      }
    }
  };
}

function requestHeaders(given: RequestInit['headers']): Headers {
  const headers = new Headers(given);
  const token = hubToken();
  headers.set('user-agent', 'mlx-runners');
  if (token) headers.set('authorization', `Bearer ${token}`);
  return headers;
}

function mayPass(status: number): boolean {
  return status === 429 || status >= 500;
}

/** Runs a request and turns whatever goes wrong into one error that says what to do. */
async function explained<T>(
  id: string,
  revision: string,
  { signal }: RequestOptions,
  request: () => Promise<T>,
): Promise<T> {
  throwIfAborted(signal);
  try {
    return await request();
  } catch (error) {
    if (signal?.aborted) throw new AbortedError(undefined, { cause: error });
    if (error instanceof HubApiError) throw refusal(id, revision, error);
    if (error instanceof HubUnreachableError || isConnectionError(error)) {
      throw new HubUnreachableError(`Can't reach ${hubEndpoint()}: ${reason(error)}.`, {
        cause: error,
      });
    }
    if (error instanceof MlxRunnersError) throw error;
    throw new HubError(`Unusable answer of ${hubEndpoint()} for ${id}: ${reason(error)}.`, {
      cause: error,
    });
  }
}

function refusal(id: string, revision: string, error: HubApiError): HubError {
  const status = error.statusCode;
  const where = `${hubEndpoint()} answered ${status} for ${id} at "${revision}"`;
  const advice =
    status === 401 || status === 403
      ? 'Check the name; if the model is private or gated, ask for access on its page and set HF_TOKEN.'
      : status === 404
        ? 'Check the name of the model, the revision and the file.'
        : 'The server has a problem: try again later.';
  return new HubError(`${where} (${error.message}). ${advice}`, { cause: error });
}

/** fetch fails with a TypeError when there is no connection; its cause says why. */
function isConnectionError(error: unknown): boolean {
  return error instanceof TypeError && error.message === 'fetch failed';
}

function reason(error: unknown): string {
  const { message, cause } = error as Error;
  const { code, message: detail } = (cause ?? {}) as { code?: string; message?: string };
  return [message, detail || code].filter(Boolean).join(': ');
}
