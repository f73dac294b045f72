/**
 * GET requests to the Hugging Face hub, or to a server that speaks its API (`HF_ENDPOINT`): the
 * token, limits for how long nothing may come, and further tries where they can help.
 */

import {
  AbortedError,
  HubError,
  MlxRunnersError,
  throwIfAborted,
} from '@mlx-runners/mlx-core/errors';
import { setTimeout as sleep } from 'node:timers/promises';
import { hubEndpoint, hubToken } from './environment.js';
import { refusal } from './hub-refusals.js';

/** No connection to the hub, or one that breaks off: then a mirror may stand in. */
export class HubUnreachableError extends HubError {}

export interface RequestOptions {
  signal?: AbortSignal | undefined;
  /** Waits before the second, third … try, in ms. Default: 0.5, 1, 2, 4 s. */
  retryWaits?: readonly number[] | undefined;
}

export interface HubRequest extends RequestOptions {
  url: string;
  headers?: Record<string, string>;
  /** How long nothing may come, in ms. */
  timeout: number;
  /** What is asked for, to be named in errors. */
  subject: { id: string; revision: string; file?: string };
  /** Statuses that the caller deals with; others of 400 and more are errors. */
  accept?: readonly number[];
}

export interface HubAnswer {
  status: number;
  headers: Headers;
  /** The address that answered, after redirects. */
  url: string;
  /** The body. @throws HubUnreachableError when it breaks off, AbortedError */
  chunks: AsyncGenerator<Uint8Array, void>;
  /** To be called when the body is not read to its end. */
  discard(): Promise<void>;
}

export const RETRY_WAITS: readonly number[] = [500, 1000, 2000, 4000];
/** A server that asks for more patience is not waited for. */
const LONGEST_WAIT = 5 * 60_000;

/** @throws HubUnreachableError, HubError for a refusal, AbortedError */
export async function askHub(request: HubRequest): Promise<HubAnswer> {
  const { signal, retryWaits = RETRY_WAITS, accept = [] } = request;
  for (let attempt = 0; ; attempt++) {
    const answer = await send(request);
    const { status, headers } = answer;
    if (status < 400 || accept.includes(status)) return answer;
    const wait = retryWaits[attempt];
    const asked = askedWait(headers);
    const isPassing = status === 408 || status === 429 || status >= 500;
    if (!isPassing || wait === undefined || (asked ?? 0) > LONGEST_WAIT) {
      const error = refusal(request.subject, status, headers, asked);
      await answer.discard();
      throw error;
    }
    await answer.discard();
    await pause(asked ?? wait, signal);
  }
}

export async function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  await sleep(ms, undefined, { signal }).catch(() => throwIfAborted(signal));
}

/** One try: the answer has to begin, and its body to go on, before the time is up. */
async function send({ url, headers, timeout, signal, subject }: HubRequest): Promise<HubAnswer> {
  throwIfAborted(signal);
  const limit = new AbortController();
  const silence = () => limit.abort(new Error(`nothing came for ${timeout / 1000} s`));
  let timer = setTimeout(silence, timeout);
  const failed = (error: unknown) => {
    clearTimeout(timer);
    return connectionError(error, signal, subject.id);
  };
  let response: Response;
  try {
    // fetch follows redirects, and doesn't take the token along to another server.
    response = await fetch(url, {
      headers: requestHeaders(url, headers),
      signal: AbortSignal.any([limit.signal, ...(signal ? [signal] : [])]),
    });
  } catch (error) {
    throw failed(error);
  }
  const body = response.body as AsyncIterable<Uint8Array> | null;
  async function* read(): AsyncGenerator<Uint8Array, void> {
    try {
      for await (const chunk of body ?? []) {
        // The time that the reader takes for a chunk doesn't count.
        clearTimeout(timer);
        yield chunk;
        timer = setTimeout(silence, timeout);
      }
    } catch (error) {
      throw failed(error);
    } finally {
      clearTimeout(timer);
    }
  }
  const chunks = read();
  return {
    status: response.status,
    headers: response.headers,
    url: response.url,
    chunks,
    async discard() {
      clearTimeout(timer);
      await chunks.return().catch(() => undefined);
      if (!response.body?.locked) await response.body?.cancel().catch(() => undefined);
    },
  };
}

function requestHeaders(url: string, given: Record<string, string> = {}): Headers {
  const headers = new Headers({ 'user-agent': 'mlx-runners', ...given });
  const token = hubToken();
  if (token && new URL(url).origin === new URL(hubEndpoint()).origin) {
    headers.set('authorization', `Bearer ${token}`);
  }
  return headers;
}

function connectionError(error: unknown, signal: AbortSignal | undefined, id: string): Error {
  if (signal?.aborted) return new AbortedError(undefined, { cause: error });
  if (error instanceof MlxRunnersError) return error;
  const message = `Can't reach ${hubEndpoint()} for ${id}: ${connectionReason(error)}.`;
  return new HubUnreachableError(message, { cause: error });
}

/** fetch fails with "fetch failed" or "terminated"; its cause says why. */
function connectionReason(error: unknown): string {
  const { message, cause } = error as Error;
  const { code, message: detail } = (cause ?? {}) as { code?: string; message?: string };
  return [message, detail || code].filter(Boolean).join(': ');
}

/** How many ms the server asks to be left alone (Retry-After, RateLimit), if it does. */
function askedWait(headers: Headers): number | undefined {
  // draft-ietf-httpapi-ratelimit-headers: `"api";r=0;t=55`, nothing remains for 55 s.
  const rateLimit = /;\s*r=0\s*;\s*t=(\d+)/.exec(headers.get('ratelimit') ?? '')?.[1];
  if (rateLimit !== undefined) return Number(rateLimit) * 1000;
  const retryAfter = headers.get('retry-after')?.trim();
  if (!retryAfter) return undefined;
  if (/^\d+$/.test(retryAfter)) return Number(retryAfter) * 1000;
  const date = Date.parse(retryAfter);
  return Number.isNaN(date) ? undefined : Math.max(0, date - Date.now());
}
