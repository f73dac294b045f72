import { UsageError } from '@mlx-runners/mlx-core/errors';
import type { Sizes } from '@mlx-runners/program';

/** By method, as `exportMlxfn` takes them. */
export type SizesOfMethods = Readonly<Record<string, readonly Sizes[]>>;

const most = 4096;

/**
 * Parses `decode:T=1,past=0..9`: a method and its dimensions, of which ranges stand for each of their
 * numbers. What the option was given before is kept, so that it can be repeated.
 *
 * @throws UsageError that shows what would be right
 */
export function parseSizes(flag: string) {
  return (text: string, before: SizesOfMethods = {}): SizesOfMethods => {
    const parts = /^([\w-]+):(.+)$/.exec(text);
    if (!parts) throw wrong(flag, text);
    const [, method, dimensions] = parts;
    let all: Sizes[] = [{}];
    for (const dimension of dimensions.split(/, */)) {
      const [, name, first, last = first] =
        /^([\w.-]+)=(\d{1,10})(?:\.\.(\d{1,10}))?$/.exec(dimension) ?? [];
      if (name === undefined || Number(last) < Number(first)) throw wrong(flag, text);
      const count = Number(last) - Number(first) + 1;
      if (count * all.length > most) {
        throw new UsageError(`${flag} ${text} stands for more than ${most} sizes.`);
      }
      const values = Array.from({ length: count }, (_, i) => Number(first) + i);
      all = all.flatMap((sizes) => values.map((value) => ({ ...sizes, [name]: value })));
    }
    return { ...before, [method]: [...(before[method] ?? []), ...all] };
  };
}

function wrong(flag: string, text: string): UsageError {
  return new UsageError(
    `${flag} must be a method and whole numbers, such as decode:T=1,past=0..9; got '${text}'.`,
  );
}
