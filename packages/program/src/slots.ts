/** Values get slots, which are used again once nothing reads what is in them. */
import { operands, type Graph } from './graph.js';

export interface SlotAssignment {
  /** By value. */
  slots: ReadonlyMap<number, number>;
  count: number;
  /** Slots of neither inputs, constants nor states. */
  temporaries: number;
}

/**
 * Inputs, constants and states keep slots of their own. Of the others a result may take the slot of an
 * operand that is read for the last time.
 */
export function assignSlots(graph: Graph): SlotAssignment {
  const slots = new Map<number, number>();
  for (const { value } of [...graph.inputs, ...graph.constants, ...graph.states]) {
    slots.set(value, slots.size);
  }
  const given = slots.size;
  const lastUse = lastUses(graph);
  const free: number[] = [];
  let count = given;
  for (const [at, instruction] of graph.instructions.entries()) {
    for (const value of new Set(operands(instruction))) {
      const slot = slots.get(value)!;
      if (lastUse.get(value) === at && slot >= given) free.push(slot);
    }
    for (const value of instruction.results) slots.set(value, free.pop() ?? count++);
    // What nothing reads is gone at once, but two results never share a slot.
    for (const value of instruction.results) {
      if (!lastUse.has(value)) free.push(slots.get(value)!);
    }
  }
  return { slots, count, temporaries: count - given };
}

/** The number of the instruction that reads a value last; results of the method are read at the end. */
function lastUses(graph: Graph): Map<number, number> {
  const uses = new Map<number, number>();
  for (const [at, instruction] of graph.instructions.entries()) {
    for (const value of operands(instruction)) uses.set(value, at);
  }
  const end = graph.instructions.length;
  for (const { value } of graph.outputs) uses.set(value, end);
  for (const { next } of graph.states) uses.set(next, end);
  return uses;
}
