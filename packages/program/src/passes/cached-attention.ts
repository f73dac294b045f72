/** What attention over a call's cache can do itself: rotate queries and keys, and take heads as projections give them. */
import type { Argument } from '../graph.js';
import { sameSize, type Size } from '../sizes.js';
import { any, call, fusing, is, type Fusion, type Match, type Pattern } from './pattern.js';

const isDefault = is((arg) => arg === null);

/** Names of the op's arguments after q, k and v, but for those that say how heads lie. */
const how = ['position', 'layer', 'scale', 'window', 'softcap'];
const rotation = ['dims', 'traditional', 'base', 'positionScale', 'freqs'];

function updateAndAttend(
  match: Match,
  heads: readonly Argument[],
): { op: string; args: readonly Argument[] } {
  const values = (names: readonly string[]): Argument[] => names.map((name) => match.get(name));
  const args = [...values(['q', 'k', 'v', ...how]), ...heads, ...values(rotation)];
  while (args.at(-1) === null) args.pop();
  return { op: 'updateAndAttend', args };
}

/** q and k by the same rotation, from the position of the op on. */
const rotated = (x: string): Pattern =>
  call('rope', ...[x, ...rotation.toSpliced(-1, 0, 'position')].map(any));

const rotate: Fusion = {
  pattern: call(
    'updateAndAttend',
    ...[rotated('q'), rotated('k'), any('v'), ...how.map(any)],
    ...Array.from({ length: 2 + rotation.length }, () => isDefault),
  ),
  replace(match) {
    const [dims, size] = [match.number('dims'), match.shape('q').at(-1)];
    const freqs = match.get('freqs') === null ? undefined : match.shape('freqs');
    const isKnown =
      dims !== undefined && dims > 0 && dims % 2 === 0 && typeof size === 'number' && dims <= size;
    const turns = (match.get('base') === null) !== (freqs === undefined);
    const fits = !freqs || (freqs.length === 1 && freqs[0] === (dims ?? 0) / 2);
    if (!isKnown || !turns || !fits || (freqs && match.dtype('freqs') !== 'float32')) {
      return undefined;
    }
    return updateAndAttend(match, [null, null]);
  },
};

const swapped = is(
  (arg) =>
    typeof arg === 'object' && arg !== null && 'list' in arg && arg.list.join() === '0,2,1,3',
);

/** [B, T, heads · D] → [B, heads, T, D] */
const split = (x: string): Pattern =>
  call('transpose', call('reshape', any(x), any(`${x}Split`)), swapped);

/** Norms of heads lie between the split of q and k and the op. */
const splits = [
  [split('q'), split('k'), split('v')],
  [any('q'), any('k'), split('v')],
];

const sideBySide: Fusion[] = splits.map(([q, k, v]) => ({
  pattern: call(
    'reshape',
    call(
      'transpose',
      call(
        'updateAndAttend',
        ...[q, k, v, ...how.map(any), isDefault, isDefault, ...rotation.map(any)],
      ),
      swapped,
    ),
    any('merged'),
  ),
  replace(match) {
    const [queries, keys, values] = ['q', 'k', 'v'].map((x) => headsOf(match, x));
    const width = queries && values && queries.heads * values.size;
    if (!queries || !keys || keys.heads !== values?.heads) return undefined;
    const merged = listOf(match.get('merged'));
    if (!sameSizes(merged, [queries.batch, queries.tokens, width])) return undefined;
    return updateAndAttend(match, [queries.heads, keys.heads]);
  },
}));

interface Heads {
  batch: Size;
  tokens: Size;
  heads: number;
  size: number;
}

/** What is split here, or was before; undefined where it is not split by heads. */
function headsOf(match: Match, x: string): Heads | undefined {
  const shape = match.shape(x);
  const list = match.get(`${x}Split`);
  if (list === undefined) {
    const [batch, heads, tokens, size] = shape;
    return shape.length === 4 ? known({ batch, heads, tokens, size }) : undefined;
  }
  const [batch, tokens, heads, size] = listOf(list);
  const found = known({ batch, heads, tokens, size });
  return found && sameSizes(shape, [batch, tokens, found.heads * found.size]) ? found : undefined;
}

function known({ batch, tokens, heads, size }: Record<keyof Heads, Size>): Heads | undefined {
  return typeof heads === 'number' && typeof size === 'number'
    ? { batch, tokens, heads, size }
    : undefined;
}

function listOf(arg: Argument): readonly Size[] {
  return typeof arg === 'object' && arg !== null && 'list' in arg ? arg.list : [];
}

function sameSizes(a: readonly Size[], b: readonly (Size | undefined)[]): boolean {
  return a.length === b.length && a.every((size, i) => sameSize(size, b[i]));
}

/** In this order: what is split is rotated afterwards. */
export const fuseCachedAttention = [fusing([rotate]), fusing(sideBySide)];
