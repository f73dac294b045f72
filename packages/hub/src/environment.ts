/**
 * The environment variables that decide where model files come from and lie. Those that start with
 * HF_ mean what they mean to Python's huggingface_hub, but an empty one counts as unset.
 */

import { HubError, UsageError } from '@mlx-runners/mlx-core/errors';
import { readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';

const PUBLIC_HUB = 'https://huggingface.co';

/**
 * The cache shared with Python and other tools: `HF_HUB_CACHE`, else `HUGGINGFACE_HUB_CACHE`, else
 * `$HF_HOME/hub`, else `$XDG_CACHE_HOME/huggingface/hub`, else `~/.cache/huggingface/hub`.
 */
export function huggingFaceCache(): string {
  const cache = variable('HF_HUB_CACHE') ?? variable('HUGGINGFACE_HUB_CACHE');
  return cache === undefined ? join(huggingFaceHome(), 'hub') : expanded(cache);
}

function huggingFaceHome(): string {
  return expanded(variable('HF_HOME') ?? join(userCache(), 'huggingface'));
}

/** Our own cache: `MLX_RUNNERS_CACHE`, else `$XDG_CACHE_HOME/mlx-runners`, else `~/.cache/mlx-runners`. */
export function mlxRunnersCache(): string {
  return expanded(variable('MLX_RUNNERS_CACHE') ?? join(userCache(), 'mlx-runners'));
}

function userCache(): string {
  return variable('XDG_CACHE_HOME') ?? join(homedir(), '.cache');
}

/**
 * Base address of the hub, without a final slash: `HF_ENDPOINT`, or the public one.
 *
 * @throws UsageError for anything that is no address of a server
 */
export function hubEndpoint(): string {
  const endpoint = (variable('HF_ENDPOINT') ?? PUBLIC_HUB).replace(/\/+$/, '');
  const url = URL.canParse(endpoint) ? new URL(endpoint) : undefined;
  // Nothing of it is repeated: it could be a password.
  if (url?.username || url?.password) {
    throw new UsageError('HF_ENDPOINT must not hold a user or password; use HF_TOKEN.');
  }
  if (url?.protocol === 'https:' || url?.protocol === 'http:') return endpoint;
  throw new UsageError(
    `HF_ENDPOINT is "${endpoint}"; it must be an address such as ${PUBLIC_HUB}.`,
  );
}

/**
 * What is sent to the hub to say who asks: `HF_TOKEN`, else `HUGGING_FACE_HUB_TOKEN`, else the file
 * that `hf auth login` writes (`HF_TOKEN_PATH`, else `$HF_HOME/token`).
 *
 * @throws HubError for one that can't be sent
 */
export function hubToken(): string | undefined {
  if (isTrue('HF_HUB_DISABLE_IMPLICIT_TOKEN')) return undefined;
  const fromEnvironment = variable('HF_TOKEN') ?? variable('HUGGING_FACE_HUB_TOKEN') ?? '';
  const token = clean(fromEnvironment) || clean(readTokenFile());
  // fetch would refuse it as well, with a message that repeats it.
  if (!/^[\x21-\x7e]*$/.test(token)) {
    throw new HubError('The token for the hub (HF_TOKEN) has spaces or letters that no token has.');
  }
  return token || undefined;
}

function clean(token: string): string {
  return token.replace(/[\r\n]/g, '').trim();
}

function readTokenFile(): string {
  try {
    return readFileSync(
      expanded(variable('HF_TOKEN_PATH') ?? join(huggingFaceHome(), 'token')),
      'utf8',
    );
  } catch {
    return '';
  }
}

/** True when `HF_HUB_OFFLINE` (else `TRANSFORMERS_OFFLINE`) says so: then nothing at all is fetched. */
export function isOffline(): boolean {
  return isTrue(process.env.HF_HUB_OFFLINE ? 'HF_HUB_OFFLINE' : 'TRANSFORMERS_OFFLINE');
}

function isTrue(name: string): boolean {
  return /^(1|on|yes|true)$/i.test(process.env[name] ?? '');
}

/** How long to wait for something to come, in ms: for an answer of the API, and for bytes of a file. */
export function hubTimeouts(): { answer: number; download: number } {
  return { answer: timeout('HF_HUB_ETAG_TIMEOUT'), download: timeout('HF_HUB_DOWNLOAD_TIMEOUT') };
}

const TIMEOUT_SECONDS = '10';

function timeout(name: string): number {
  const value = variable(name) ?? TIMEOUT_SECONDS;
  const seconds = Number(value);
  if (seconds > 0 && seconds <= 86_400) return seconds * 1000;
  throw new UsageError(`${name} is "${value}"; it must be a number of seconds, such as 10.`);
}

/** `MLX_RUNNERS_SOURCE`: use only this source. @throws UsageError for any other value */
export function forcedSource(): 'hub' | 'mirror' | undefined {
  const source = variable('MLX_RUNNERS_SOURCE');
  if (source === undefined || source === 'hub' || source === 'mirror') return source;
  throw new UsageError(`MLX_RUNNERS_SOURCE is "${source}"; it can be "hub" or "mirror".`);
}

function variable(name: string): string | undefined {
  return process.env[name] || undefined;
}

/** Absolute, with `~`, `$NAME` and `${NAME}` replaced, as Python does it. */
function expanded(path: string): string {
  const fromHome = path.replace(/^~(?=\/|$)/, homedir);
  const known = (whole: string, name: string) => process.env[name] ?? whole;
  return resolve(
    fromHome.replace(/\$(?:(\w+)|\{([^}]*)\})/g, (whole, bare, braced) =>
      known(whole, (bare ?? braced) as string),
    ),
  );
}
