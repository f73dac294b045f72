/**
 * GGUF's blocks as MLX's affine format: the same codes, in groups of 32, with float32 scales and biases, so that
 * every weight is what it was. A format fits when its scales belong to 32 weights or more.
 * Source of the layouts: ggml-common.h and ggml-quants.c of ggml-org/llama.cpp.
 */
import { mx, type MxArray } from '@mlx-runners/mlx-core';
import type { BlockFormat, QuantizedFormat } from '@mlx-runners/nn';

const GROUP = 32;

/** The parts of all blocks. */
interface Unpacked {
  /** uint8 [blocks, weights]. */
  codes: MxArray;
  /** Of each group, float32 [blocks, groups]. */
  scales: MxArray;
  biases: MxArray;
}

interface Layout {
  bytes: number;
  weights: number;
  bits: number;
  unpack: (blocks: Blocks) => Unpacked;
}

/** uint8 [blocks, bytes], of which parts are taken. */
class Blocks {
  readonly #bytes: MxArray;

  constructor(bytes: MxArray) {
    this.#bytes = bytes;
  }

  /** uint8 [blocks, count]. */
  u8(start: number, count: number): MxArray {
    return this.#bytes.slice([0, start], [this.#bytes.shape[0], start + count]);
  }

  /** float32 [blocks, 1]. */
  float16(start: number): MxArray {
    return mx.contiguous(this.u8(start, 2)).view('float16').astype('float32');
  }
}

const layouts: Readonly<Record<string, Layout>> = {
  Q4_0: {
    ...{ bytes: 18, weights: 32, bits: 4 },
    unpack: (blocks) => centred(blocks.float16(0), 8, halves(blocks.u8(2, 16), GROUP)),
  },
  Q4_1: {
    ...{ bytes: 20, weights: 32, bits: 4 },
    unpack: (blocks) => ({
      codes: halves(blocks.u8(4, 16), GROUP),
      scales: blocks.float16(0),
      biases: blocks.float16(2),
    }),
  },
  Q5_0: {
    ...{ bytes: 22, weights: 32, bits: 5 },
    unpack: (blocks) => {
      const codes = withFifthBits(halves(blocks.u8(6, 16), GROUP), bitsOf(blocks.u8(2, 4)));
      return centred(blocks.float16(0), 16, codes);
    },
  },
  Q5_1: {
    ...{ bytes: 24, weights: 32, bits: 5 },
    unpack: (blocks) => ({
      codes: withFifthBits(halves(blocks.u8(8, 16), GROUP), bitsOf(blocks.u8(4, 4))),
      scales: blocks.float16(0),
      biases: blocks.float16(2),
    }),
  },
  Q8_0: {
    ...{ bytes: 34, weights: 32, bits: 8 },
    // The sign's bit turned is 128 added.
    unpack: (blocks) => centred(blocks.float16(0), 128, blocks.u8(2, GROUP).bitwiseXor(0x80)),
  },
  Q4_K: {
    ...{ bytes: 144, weights: 256, bits: 4 },
    unpack: (blocks) => ({ codes: halves(blocks.u8(16, 128), 64), ...groupsOfK(blocks) }),
  },
  Q5_K: {
    ...{ bytes: 176, weights: 256, bits: 5 },
    unpack: (blocks) => {
      const codes = halves(blocks.u8(48, 128), 64);
      return { codes: withFifthBits(codes, bitsOfK(blocks.u8(16, 32))), ...groupsOfK(blocks) };
    },
  },
};

/** The format of MLX that holds these blocks; undefined where none does. */
export function affineFormat({ format }: BlockFormat): QuantizedFormat | undefined {
  if (!Object.hasOwn(layouts, format)) return undefined;
  return { mode: 'affine', bits: layouts[format].bits, groupSize: GROUP };
}

/**
 * @param blocks uint8 [rows, bytes of a row], of a format that `affineFormat` has
 * @returns codes uint32 [rows, columns · bits / 32], scales and biases float32 [rows, columns / 32]
 */
export function affineOf(
  blocks: MxArray,
  { format, shape: [rows, columns] }: BlockFormat,
): [codes: MxArray, scales: MxArray, biases: MxArray] {
  const { bytes, bits, unpack } = layouts[format];
  return mx.tidy(() => {
    const { codes, scales, biases } = unpack(new Blocks(blocks.reshape([-1, bytes])));
    return [
      packed(codes, bits).reshape([rows, (columns * bits) / 32]),
      scales.reshape([rows, columns / GROUP]),
      biases.reshape([rows, columns / GROUP]),
    ];
  });
}

/**
 * Codes one behind the other, from the lowest bit, as uint32. Eight of them fill whole bytes, each of which has a
 * part of every code that reaches into it; shifts of uint8 drop the rest.
 */
function packed(codes: MxArray, bits: number): MxArray {
  const eight = codes.reshape([-1, 8]).split(8, 1);
  const bytes = Array.from({ length: bits }, (_, byte) => {
    const parts = eight.flatMap((code, i) => {
      const shift = i * bits - byte * 8;
      if (shift <= -bits || shift >= 8) return [];
      return [shift < 0 ? code.rightShift(-shift) : code.leftShift(shift)];
    });
    return parts.reduce((all, part) => all.bitwiseOr(part));
  });
  return mx.concatenate(bytes, 1).reshape([-1]).view('uint32');
}

function centred(scales: MxArray, zero: number, codes: MxArray): Unpacked {
  return { codes, scales, biases: scales.multiply(-zero) };
}

/** Of every `weights` codes, whose bytes lie together: low halves of the bytes, then high ones. */
function halves(bytes: MxArray, weights: number): MxArray {
  const parts = bytes.reshape([bytes.shape[0], -1, weights / 2]);
  const codes = mx.stack([parts.bitwiseAnd(15), parts.rightShift(4)], 2);
  return codes.reshape([bytes.shape[0], -1]);
}

function withFifthBits(codes: MxArray, bits: MxArray): MxArray {
  return codes.bitwiseOr(bits.reshape(codes.shape).leftShift(4));
}

const EIGHT = Uint8Array.of(0, 1, 2, 3, 4, 5, 6, 7);

/** The bits of each byte, from the lowest: uint8 [blocks, bytes, 8]. */
function bitsOf(bytes: MxArray): MxArray {
  return bytes.expandDims(-1).rightShift(mx.array(EIGHT)).bitwiseAnd(1);
}

/** The bits of 32 bytes, of which the lowest ones come first: uint8 [blocks, 8, 32]. */
function bitsOfK(bytes: MxArray): MxArray {
  return bitsOf(bytes).transpose([0, 2, 1]);
}

/** Scales and minimums of 8 groups: 6 bits each, to be multiplied with the block's own two. */
function groupsOfK(blocks: Blocks): Pick<Unpacked, 'scales' | 'biases'> {
  const [first, second, both] = [4, 8, 12].map((start) => blocks.u8(start, 4));
  const upper = (bytes: MxArray): MxArray => bytes.rightShift(6).leftShift(4);
  const own = [first.bitwiseAnd(63), both.bitwiseAnd(15).bitwiseOr(upper(first))];
  const low = [second.bitwiseAnd(63), both.rightShift(4).bitwiseOr(upper(second))];
  return {
    scales: blocks.float16(0).multiply(mx.concatenate(own, 1).astype('float32')),
    biases: blocks.float16(2).negative().multiply(mx.concatenate(low, 1).astype('float32')),
  };
}
