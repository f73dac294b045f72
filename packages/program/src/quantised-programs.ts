/** Whether weights were there that could be quantised as a description asks. */
import { UsageError } from '@mlx-runners/mlx-core/errors';
import type { ExportDescription } from './description.js';
import type { ProgramFile } from './format.js';
import { packingOf, type Packing, type WeightQuantisation } from './quantisation.js';

type Instruction = ProgramFile['traces'][number]['instructions'][number];

/** Where ops have groupSize, bits and mode. */
const packingAt: Readonly<Record<string, number>> = {
  quantizedLinear: 5,
  quantizedLinears: 5,
  quantizedMatmul: 5,
  quantizedTake: 4,
};
const formatAt: Readonly<Record<string, number>> = {
  blockLinear: 2,
  blockLinears: 2,
  blockTake: 2,
};

/** @throws UsageError where nothing has the packing that was asked for, which says what there is instead */
export function checkQuantised(
  { qlinear, qlinearEncoder, encoderMethods = [], qembedding }: ExportDescription,
  programs: readonly ProgramFile[],
): void {
  const encoders = programs.filter(({ method }) => encoderMethods.includes(method));
  const packed = ['quantizedLinear', 'quantizedLinears', 'quantizedMatmul'];
  const linears = [...packed, 'blockLinear', 'blockLinears'];
  check('qlinear', qlinear, linears, qlinearEncoder ? without(programs, encoders) : programs);
  check('qlinearEncoder', qlinearEncoder, linears, encoders);
  check('qembedding', qembedding, ['quantizedTake', 'blockTake'], programs);
}

function without<T>(list: readonly T[], others: readonly T[]): readonly T[] {
  return list.filter((each) => !others.includes(each));
}

function check(
  what: string,
  wanted: WeightQuantisation | undefined,
  ops: readonly string[],
  programs: readonly ProgramFile[],
): void {
  if (!wanted) return;
  const instructions = programs.flatMap(({ traces }) => traces.flatMap((t) => t.instructions));
  const packed = instructions.filter(({ op }) => ops.includes(op)).map(nameOfPacking);
  if (packed.includes(packingName(packingOf(wanted)))) return;
  const weights = what === 'qembedding' ? 'tables of embeddings' : 'linear layers';
  const { groupSize } = packingOf(wanted);
  throw new UsageError(
    packed.length > 0
      ? `${what}: the model's ${weights} are packed already, as ${[...new Set(packed)].join(', ')}: leave it out.`
      : `${what}: the model has no ${weights} with rows of a multiple of ${groupSize} floats that can be quantised.`,
  );
}

function nameOfPacking({ op, args }: Instruction): string {
  const format = args[formatAt[op]];
  if (typeof format === 'string') return format;
  const [groupSize, bits, mode] = args.slice(packingAt[op]);
  return packingName({
    mode: typeof mode === 'string' ? (mode as Packing['mode']) : 'affine',
    bits: Number(bits),
    groupSize: Number(groupSize),
  });
}

function packingName({ mode, bits, groupSize }: Packing): string {
  return `${mode} of ${bits} bits in groups of ${groupSize}`;
}
