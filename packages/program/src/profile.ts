/** Where the time of an exported model's calls goes, over many calls. */
import type { CallProfile, OpProfile } from '@mlx-runners/mlx-core/program';

/** Of one call. */
export interface SessionProfile extends CallProfile {
  /** From the call of `Session.run` to its result. */
  wallSeconds: number;
}

interface TraceSummary {
  calls: SessionProfile[];
  ops: Map<string, OpProfile>;
}

/** Profiles of calls, by method and trace. */
export class ProfileSummary {
  readonly #traces = new Map<string, TraceSummary>();

  add(method: string, profile: SessionProfile): void {
    const instructions = profile.ops.reduce((sum, { count }) => sum + count, 0);
    // Traces of a method differ in the number of their instructions.
    const name = `${method}, ${instructions} instructions`;
    const trace = this.#traces.get(name) ?? { calls: [], ops: new Map<string, OpProfile>() };
    this.#traces.set(name, trace);
    trace.calls.push(profile);
    for (const { op, count, seconds, bytes } of profile.ops) {
      const sum = trace.ops.get(op) ?? { op, count: 0, seconds: 0, bytes: 0 };
      trace.ops.set(op, {
        op,
        count: sum.count + count,
        seconds: sum.seconds + seconds,
        bytes: sum.bytes + bytes,
      });
    }
  }

  /** A table for each trace: its ops, the slowest first, per call. */
  format(): string {
    return [...this.#traces].map(([name, trace]) => `${formatTrace(name, trace)}\n`).join('');
  }
}

function formatTrace(name: string, { calls, ops }: TraceSummary): string {
  const inOps = ({ ops: all }: CallProfile): number =>
    all.reduce((sum, { seconds }) => sum + seconds, 0);
  const wall = median(calls.map(({ wallSeconds }) => wallSeconds));
  const beside = median(calls.map((call) => call.wallSeconds - inOps(call)));
  const total = calls.reduce((sum, call) => sum + inOps(call), 0);
  const rows = [...ops.values()]
    .sort((a, b) => b.seconds - a.seconds)
    .map(({ op, count, seconds, bytes }) => [
      op,
      String(count / calls.length),
      milliseconds(seconds / calls.length),
      `${((100 * seconds) / total).toFixed(0)} %`,
      (bytes / calls.length / 1e6).toFixed(2),
    ]);
  const table = aligned([['op', 'count', 'ms', 'share', 'MB'], ...rows]);
  const times = `${milliseconds(wall)} ms each, ${milliseconds(beside)} ms of it beside ops (medians)`;
  return [`${name}: ${calls.length} × ${times}`, ...table].join('\n');
}

function aligned(rows: readonly (readonly string[])[]): string[] {
  const widths = rows[0].map((_, i) => Math.max(...rows.map((row) => row[i].length)));
  return rows.map((row) => {
    const cells = row.map((cell, i) =>
      i === 0 ? cell.padEnd(widths[i]) : cell.padStart(widths[i]),
    );
    return `  ${cells.join('  ')}`;
  });
}

function milliseconds(seconds: number): string {
  return (1000 * seconds).toFixed(3);
}

function median(values: number[]): number {
  return values.sort((a, b) => a - b)[Math.floor(values.length / 2)];
}
