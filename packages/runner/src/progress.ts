import type { DownloadProgress } from '@mlx-runners/hub';
import { printable } from '@mlx-runners/mlx-core/errors';
import cliProgress from 'cli-progress';
import { onInterrupt } from './interruption.js';

/**
 * A bar on stderr, which appears with the first update. `using` it stops it, and so does the end of
 * the program, by whatever way.
 */
export interface Progress<Update extends unknown[]> extends Disposable {
  readonly update: (...update: Update) => void;
  /** Removes the bar. May be called more than once; updates after it do nothing. */
  readonly stop: () => void;
}

export interface ProgressOptions {
  /** `--quiet`. */
  readonly quiet?: boolean | undefined;
  /** stderr unless told; there is no progress where it isn't a terminal. */
  readonly stream?: NodeJS.WritableStream & { readonly isTTY?: boolean };
}

/**
 * Progress of downloads; `update` is an `onProgress` of the hub:
 * `model.safetensors ███░░░  40% 58.1 of 145.2 MB`.
 */
export function downloadProgress(options?: ProgressOptions): Progress<[DownloadProgress]> {
  const bar = startBar(bytes, options);
  return { ...bar, update: ({ file, bytes, totalBytes }) => bar.update(file, bytes, totalBytes) };
}

/** Progress through a recording, in seconds: `audio.wav ███░░░  40% 1:12 of 3:00`. */
export function audioProgress(
  label: string,
  options?: ProgressOptions,
): Progress<[done: number, total?: number]> {
  const bar = startBar(minutes, options);
  return { ...bar, update: (done, total) => bar.update(label, done, total) };
}

/** Writes an amount in the unit that suits the total: `58.1 of 145.2 MB`, or what is done so far. */
type AmountFormat = (done: number, total: number) => string;

const bytes: AmountFormat = (done, total) => {
  const [unit, size] = (total || done) < 1e6 ? (['kB', 1e3] as const) : (['MB', 1e6] as const);
  const amounts = [done, total].map((amount) => (amount / size).toFixed(1));
  return `${total ? amounts.join(' of ') : amounts[0]} ${unit}`;
};

const minutes: AmountFormat = (done, total) =>
  total ? `${clock(done)} of ${clock(total)}` : clock(done);

/** `m:ss`, or `h:mm:ss` from an hour on. */
function clock(seconds: number): string {
  const whole = Math.floor(seconds);
  const [h, m, s] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const pad = (n: number) => String(n).padStart(2, '0');
  return h ? `${h}:${pad(m)}:${pad(s)}` : `${m}:${pad(s)}`;
}

type Bar = Progress<[label: string, done: number, total?: number]>;

const nothing = () => undefined;
const SILENT: Bar = { update: nothing, stop: nothing, [Symbol.dispose]: nothing };

/** A total that is unknown, or 0, shows what is done without a bar. */
function startBar(
  amount: AmountFormat,
  { quiet = false, stream = process.stderr }: ProgressOptions = {},
): Bar {
  if (quiet || !stream.isTTY) return SILENT;

  let label = '';
  let state: 'waiting' | 'running' | 'stopped' = 'waiting';
  const bar = new cliProgress.SingleBar(
    {
      stream,
      format: (options, { progress, value, total }) => {
        const share = `${cliProgress.Format.BarFormat(progress, options)} ${percent(progress)} `;
        return `${label} ${total ? share : ''}${amount(value, total)}`;
      },
      hideCursor: true,
      clearOnComplete: true,
      barsize: 24,
    },
    cliProgress.Presets.shades_classic,
  );
  const stop = () => {
    forget();
    if (state === 'running') bar.stop();
    state = 'stopped';
  };
  const forget = onInterrupt(stop);
  return {
    update(newLabel, done, total = 0) {
      if (state === 'stopped' || !(done >= 0)) return;
      label = printable(newLabel);
      const known = total >= done ? total : 0;
      if (state === 'waiting') bar.start(known, done);
      else bar.setTotal(known);
      state = 'running';
      bar.update(done);
    },
    stop,
    [Symbol.dispose]: stop,
  };
}

function percent(progress: number): string {
  return `${Math.floor(100 * progress)}%`.padStart(4);
}
