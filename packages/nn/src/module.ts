/** Module: a tree of layers whose fields are named as in the checkpoint. */
import { CheckpointError, MxArray, mx, printable, type Dtype } from '@mlx-runners/mlx-core';

/** Where a parameter lives: its dotted name, and the object and key that hold it. */
export interface ParameterSlot {
  name: string;
  owner: Record<string, unknown>;
  key: string;
}

function childrenOf(value: unknown): [string, unknown][] {
  if (value instanceof Module) return Object.entries(value);
  if (Array.isArray(value))
    return value.map((element, index) => [String(index), element as unknown]);
  return [];
}

function collect(value: unknown, prefix: string, slots: ParameterSlot[]): void {
  for (const [key, child] of childrenOf(value)) {
    const name = prefix ? `${prefix}.${key}` : key;
    if (child instanceof MxArray) {
      slots.push({ name, owner: value as Record<string, unknown>, key });
    } else {
      collect(child, name, slots);
    }
  }
}

/** A module of the tree and where it is held. */
export interface ModuleSlot {
  name: string;
  module: Module;
  owner: Record<string, unknown>;
  key: string;
}

function collectModules(value: unknown, prefix: string, slots: ModuleSlot[]): void {
  for (const [key, child] of childrenOf(value)) {
    const name = prefix ? `${prefix}.${key}` : key;
    if (child instanceof Module) {
      slots.push({ name, module: child, owner: value as Record<string, unknown>, key });
    }
    collectModules(child, name, slots);
  }
}

/**
 * The base of layers and networks. Every field that is an MxArray is a parameter; fields that are
 * modules, or arrays of modules, are part of the tree. A parameter is made with its shape (as lazy
 * zeros, which take no memory) and gets its values from `load`.
 */
export class Module {
  /** All parameters of the tree, in the order in which the fields were made. */
  parameterSlots(): ParameterSlot[] {
    const slots: ParameterSlot[] = [];
    collect(this, '', slots);
    return slots;
  }

  /** All modules below this one, each before its own. */
  moduleSlots(): ModuleSlot[] {
    const slots: ModuleSlot[] = [];
    collectModules(this, '', slots);
    return slots;
  }

  /** All parameters by dotted name. */
  parameters(): Map<string, MxArray> {
    return new Map(
      this.parameterSlots().map(({ name, owner, key }) => [name, owner[key] as MxArray]),
    );
  }

  /**
   * Takes all parameters from a checkpoint, floating-point ones converted to `dtype` when one is given.
   * The tensors belong to the module afterwards.
   *
   * @throws CheckpointError that counts missing, surplus and mis-shaped tensors and names the first of
   *   each; nothing is loaded
   */
  load(tensors: ReadonlyMap<string, MxArray>, options: { dtype?: Dtype } = {}): void {
    const slots = this.parameterSlots();
    checkTensors(slots, tensors);
    for (const { name, owner, key } of slots) {
      const declared = owner[key] as MxArray;
      const stored = tensors.get(name)!;
      owner[key] = isFloating(declared) ? convert(stored, options.dtype) : stored;
      declared.dispose();
    }
  }

  /** Takes some parameters from elsewhere, as they are; they belong to the module afterwards. */
  replace(parameters: ReadonlyMap<string, MxArray>): void {
    for (const { name, owner, key } of this.parameterSlots()) {
      const given = parameters.get(name);
      if (!given) continue;
      (owner[key] as MxArray).dispose();
      owner[key] = given;
    }
  }

  /** Frees all parameters. */
  dispose(): void {
    for (const parameter of this.parameters().values()) parameter.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}

function convert(tensor: MxArray, dtype: Dtype | undefined): MxArray {
  if (dtype === undefined || tensor.dtype === dtype) return tensor;
  const converted = tensor.astype(dtype);
  tensor.dispose();
  return converted;
}

function isFloating({ dtype }: MxArray): boolean {
  return /^b?float/.test(dtype);
}

/** Numbers to multiply with are of any floating-point dtype, packed ones of just theirs. */
function fitsKind(tensor: MxArray, declared: MxArray): boolean {
  return isFloating(declared) ? isFloating(tensor) : tensor.dtype === declared.dtype;
}

function sameShape(a: readonly number[], b: readonly number[]): boolean {
  return a.length === b.length && a.every((size, axis) => size === b[axis]);
}

function listed(what: string, names: readonly string[]): string {
  const shown = names.slice(0, 3).map((name) => printable(name, 120));
  const rest = names.length > 3 ? ` … and ${names.length - 3} more` : '';
  return `${names.length} ${what}: ${shown.join(', ')}${rest}`;
}

function checkTensors(
  slots: readonly ParameterSlot[],
  tensors: ReadonlyMap<string, MxArray>,
): void {
  const missing: string[] = [];
  const misshaped: string[] = [];
  const otherwise: string[] = [];
  const known = new Set<string>();
  for (const { name, owner, key } of slots) {
    known.add(name);
    const tensor = tensors.get(name);
    const declared = owner[key] as MxArray;
    if (!tensor) missing.push(name);
    else if (!sameShape(tensor.shape, declared.shape)) {
      const [found, wanted] = [tensor.shape.join(', '), declared.shape.join(', ')];
      misshaped.push(`${name} [${found}] instead of [${wanted}]`);
    } else if (!fitsKind(tensor, declared)) otherwise.push(`${name} (${tensor.dtype})`);
  }
  const surplus = [...tensors.keys()].filter((name) => !known.has(name));
  const problems = [
    ...(missing.length > 0 ? [listed('missing', missing)] : []),
    ...(surplus.length > 0 ? [listed('surplus', surplus)] : []),
    ...(misshaped.length > 0 ? [listed('of another shape', misshaped)] : []),
    ...(otherwise.length > 0 ? [listed('of another kind', otherwise)] : []),
  ];
  if (problems.length > 0) {
    throw new CheckpointError(
      `The checkpoint does not fit the model. Tensors ${printable(problems.join('; '), 400)}.`,
    );
  }
}

/** A parameter of a given shape, to be filled by `load`. */
export function parameter(...shape: number[]): MxArray {
  return mx.zeros(shape);
}

/** A parameter of packed numbers, which stays what the checkpoint holds. */
export function packedParameter(dtype: Dtype, ...shape: number[]): MxArray {
  return mx.zeros(shape, dtype);
}
