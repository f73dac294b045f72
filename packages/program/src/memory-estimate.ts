/**
 * How much memory a method needs beside weights and states. MLX works ahead of the kernels: what
 * instructions of one chunk allocate is freed when the chunk is done, unless a result takes it over.
 */
import { itemSizes } from '@mlx-runners/mlx-core/program';
import { slotsRead, type TraceFile } from './format.js';
import { evaluateSize, type Sizes } from './sizes.js';

// As in native/program/session.cpp.
const firstChunkInstructions = 16;
const chunkInstructions = 64;
const chunkBytes = 32 * 2 ** 20;

// Their results lie in the memory of their first operand.
const views = new Set([
  ...['reshape', 'transpose', 'swapaxes', 'moveaxis', 'slice', 'split', 'splitAt', 'expandDims'],
  ...['squeeze', 'broadcastTo', 'asStrided', 'flatten', 'unflatten', 'view', 'stopGradient'],
  // Written in place where it is a state, as it mostly is.
  ...['sliceUpdate', 'kvCacheUpdate'],
]);

// Those of which a result takes over an operand's memory, when nothing else needs that.
const inPlace = new Set(
  [
    'abs negative sign square sqrt rsqrt exp expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan',
    'sinh cosh tanh arcsinh arccosh arctanh sigmoid erf erfinv gelu floor ceil round logicalNot',
    'add subtract multiply divide remainder power maximum minimum arctan2 logaddexp logicalAnd logicalOr',
    'bitwiseAnd bitwiseOr bitwiseXor leftShift rightShift where clip softmax layerNorm rmsNorm addRmsNorm astype',
  ].flatMap((names) => names.split(' ')),
);

/** A piece of memory, which values share that are views of one another. */
interface Buffer {
  bytes: number;
  /** The instruction that makes it. */
  firstUse: number;
  /** The instruction that reads it last. */
  lastUse: number;
  temporary: boolean;
}

/** The most bytes that temporary arrays of a trace take at once, outputs included. */
export function peakBytes(trace: TraceFile, sizes: Sizes): number {
  const inSlot = new Map<number, Buffer>();
  const given = [...trace.inputs, ...trace.constants, ...trace.states];
  for (const { slot } of given) {
    inSlot.set(slot, { bytes: 0, firstUse: -1, lastUse: Infinity, temporary: false });
  }
  // First who shares memory and until when, then how much is alive at a time.
  const made = trace.instructions.map(({ op, args, results }, at) => {
    const read = slotsRead(args).map((slot) => inSlot.get(slot)!);
    for (const buffer of read) buffer.lastUse = Math.max(buffer.lastUse, at);
    return results.map(({ slot, dtype, shape }) => {
      const bytes = shape.reduce<number>(
        (product, size) => product * evaluateSize(size, sizes),
        itemSizes[dtype],
      );
      const buffer = views.has(op)
        ? read[0]
        : { bytes, firstUse: at, lastUse: at, temporary: true };
      inSlot.set(slot, buffer);
      return { buffer, donors: inPlace.has(op) ? read : [] };
    });
  });
  const end = trace.instructions.length;
  for (const { slot } of trace.outputs) inSlot.get(slot)!.lastUse = end;
  for (const { next } of trace.states) inSlot.get(next)!.lastUse = end;

  let living: Buffer[] = [];
  let alive = 0;
  let peak = 0;
  let chunk = { instructions: 0, bytes: 0, most: firstChunkInstructions };
  for (const [at, results] of made.entries()) {
    for (const { buffer, donors } of results) {
      if (!buffer.temporary || buffer.firstUse !== at) continue;
      living.push(buffer);
      chunk.bytes += buffer.bytes;
      const donor = donors.find(
        ({ temporary, lastUse, bytes }) => temporary && lastUse === at && bytes === buffer.bytes,
      );
      if (donor) donor.bytes = 0;
      else alive += buffer.bytes;
    }
    peak = Math.max(peak, alive);
    chunk.instructions += 1;
    if (chunk.instructions < chunk.most && chunk.bytes < chunkBytes) continue;
    chunk = { instructions: 0, bytes: 0, most: chunkInstructions };
    living = living.filter((buffer) => {
      if (buffer.lastUse > at) return true;
      alive -= buffer.bytes;
      return false;
    });
  }
  return peak;
}
