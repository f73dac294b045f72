/** What contestants' turns come to: rows of a bench file. */
import { benchRow, median, type BenchRow } from '@mlx-runners/runner';
import type { BenchPrompts, Contestant, Turn } from './bench-contestants.js';

/** What a contestant did in all its turns. */
export interface Measured {
  readonly contestant: Contestant;
  readonly turns: readonly Turn[];
}

/**
 * Lets contestants take turns (A B A B …), so that what the machine does meanwhile falls on all alike.
 */
export async function takeTurns(
  contestants: readonly Contestant[],
  rounds: number,
  prompts: BenchPrompts,
): Promise<Measured[]> {
  const measured = contestants.map((contestant) => ({ contestant, turns: [] as Turn[] }));
  for (let round = 0; round < rounds; round++) {
    for (const { contestant, turns } of measured) {
      turns.push(await contestant.turn(prompts));
    }
  }
  return measured;
}

export interface Goals {
  decode?: number;
  prefill?: number;
}

interface Quantity {
  what: string;
  unit: string;
  better: 'lower' | 'higher';
  of: (measured: Measured) => number;
  goal?: keyof Goals;
}

/** Rows of ours and one peer. */
export function comparedRows(
  ours: Measured,
  peer: Measured,
  { subject, prompts, goals }: { subject: string; prompts: BenchPrompts; goals: Goals },
): BenchRow[] {
  const quantities: Quantity[] = [
    {
      what: `decode of ${prompts.tokens} tokens`,
      ...{ unit: 'tokens/s', better: 'higher', goal: 'decode' },
      of: ({ turns }) => median(turns.map(({ decode }) => decode)),
    },
    {
      what: `prefill of ${prompts.long.length} tokens`,
      ...{ unit: 'tokens/s', better: 'higher', goal: 'prefill' },
      of: ({ turns }) => median(turns.map(({ prefill }) => prefill)),
    },
    {
      what: `first token behind ${prompts.short.length}`,
      ...{ unit: 'ms', better: 'lower' },
      of: ({ turns }) => 1000 * median(turns.map(({ firstToken }) => firstToken)),
    },
    {
      what: 'peak memory',
      ...{ unit: 'MB', better: 'lower' },
      of: ({ turns }) => turns[turns.length - 1].peakBytes / 1e6,
    },
    {
      what: 'loading',
      ...{ unit: 's', better: 'lower' },
      of: ({ contestant }) => contestant.loadSeconds,
    },
  ];
  return quantities.map(({ what, unit, better, of, goal }) =>
    benchRow({
      what: `${what}, ${subject}, ${ours.contestant.name}`,
      ours: rounded(of(ours)),
      peer: rounded(of(peer)),
      peerName: peer.contestant.name,
      unit,
      better,
      goal: (goal && goals[goal]) ?? null,
    }),
  );
}

/** `node-llama-cpp 3.22.1: decode 54.1 (53.0 to 54.5), prefill 361 (…) tokens/s, 318 MB` */
export function summary({ contestant, turns }: Measured): string {
  const [decode, prefill] = (['decode', 'prefill'] as const).map((what) => {
    const figures = turns.map((turn) => turn[what]);
    const ends = [Math.min(...figures), Math.max(...figures)].map(shown);
    return `${what} ${shown(median(figures))} (${ends.join(' to ')})`;
  });
  const memory = (turns[turns.length - 1].peakBytes / 1e6).toFixed(0);
  return `${contestant.name}: ${decode}, ${prefill} tokens/s, ${memory} MB\n`;
}

function shown(figure: number): string {
  return figure.toFixed(figure < 100 ? 1 : 0);
}

/** Four digits, which is more than any of these figures can be repeated to. */
function rounded(figure: number): number {
  return Number(figure.toPrecision(4));
}
