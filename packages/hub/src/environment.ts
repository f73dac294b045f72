/** The environment variables that decide where model files come from and lie. */

import { getHFHubCachePath, HUB_URL } from '@huggingface/hub';
import { UsageError } from '@mlx-runners/mlx-core/errors';
import { homedir } from 'node:os';
import { join } from 'node:path';

/**
 * The cache shared with Python and other tools: `HF_HUB_CACHE`, else `$HF_HOME/hub`, else
 * `$XDG_CACHE_HOME/huggingface/hub`, else `~/.cache/huggingface/hub`.
 */
export function huggingFaceCache(): string {
  return getHFHubCachePath().replace(/^~(?=\/|$)/, homedir());
}

/** Our own cache: `MLX_RUNNERS_CACHE`, else `$XDG_CACHE_HOME/mlx-runners`, else `~/.cache/mlx-runners`. */
export function mlxRunnersCache(): string {
  const { MLX_RUNNERS_CACHE: own, XDG_CACHE_HOME: xdg } = process.env;
  return own || join(xdg || join(homedir(), '.cache'), 'mlx-runners');
}

/** Base address of the hub, without a final slash: `HF_ENDPOINT`, or the public one. */
export function hubEndpoint(): string {
  return (process.env.HF_ENDPOINT || HUB_URL).replace(/\/+$/, '');
}

export function hubToken(): string | undefined {
  return process.env.HF_TOKEN?.trim() || undefined;
}

/** True when `HF_HUB_OFFLINE` is 1, on, yes or true: then nothing at all is fetched. */
export function isOffline(): boolean {
  return /^(1|on|yes|true)$/i.test(process.env.HF_HUB_OFFLINE ?? '');
}

/** `MLX_RUNNERS_SOURCE`: use only this source. @throws UsageError for any other value */
export function forcedSource(): 'hub' | 'mirror' | undefined {
  const source = process.env.MLX_RUNNERS_SOURCE || undefined;
  if (source === undefined || source === 'hub' || source === 'mirror') return source;
  throw new UsageError(`MLX_RUNNERS_SOURCE is "${source}"; it can be "hub" or "mirror".`);
}
