/** What a model's methods do with its parameters. */
import type { MxArray } from '@mlx-runners/mlx-core';
import { Domain } from './domain.js';
import { operand } from './graph.js';
import { tracesOf, type Method } from './method.js';
import { disposeMade, trace } from './trace.js';

export interface WeightUses {
  /** Those that read it. */
  methods: string[];
  /** Whether rows are taken of it. */
  isTable: boolean;
}

/** By name, of those parameters that the methods read: each is traced once. */
export function weightUses(
  methods: Readonly<Record<string, Method | readonly Method[]>>,
  parameters: ReadonlyMap<string, MxArray>,
): Map<string, WeightUses> {
  const names = new Map([...parameters].map(([name, array]) => [array, name]));
  const found = new Map<string, WeightUses>();
  for (const [method, each] of Object.entries(methods)) {
    for (const one of tracesOf(each)) {
      const { graph, constants } = trace(one, new Domain(one).smallest ?? {}, names);
      disposeMade(constants);
      const tables = new Set(
        graph.instructions.map(({ op, args }) => (op === 'take' ? operand(args[0]) : undefined)),
      );
      for (const { name, value } of graph.constants) {
        const { methods: before = [], isTable = false } = found.get(name) ?? {};
        found.set(name, {
          methods: [...before, method],
          isTable: isTable || tables.has(value),
        });
      }
    }
  }
  return found;
}
