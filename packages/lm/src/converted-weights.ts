/** The tensors of a converted checkpoint, as mlx-lm has them. */
import { mx, type Dtype, type MxArray } from '@mlx-runners/mlx-core';
import type { QuantizedFormat } from '@mlx-runners/nn';
import type { DecoderCheckpoint } from './checkpoint.js';
import { affineFormat, affineOf } from './repack.js';

export interface WeightOptions {
  /** Of plain numbers, scales and biases; those of blocks are float16 unless given. */
  dtype?: Dtype;
  /** How matrices are packed; those stay plain whose rows the groups don't divide. */
  quantize?: QuantizedFormat;
  /** Plain numbers also where the checkpoint packs matrices as MLX does. */
  dequantize?: boolean;
  /** Blocks of GGUF as MLX's affine format where that holds them exactly. */
  repack?: boolean;
}

/** The parts of one layer or parameter, under the ends of their names, computed when they are needed. */
export interface ConvertedWeights {
  tensors: Map<string, MxArray>;
  /** Of the packed layers, by their names. */
  formats: Map<string, QuantizedFormat>;
}

/** @param checkpoint in Hugging Face's form; its tensors are part of what is returned */
export function convertedWeights(
  { tensors, packingOf }: DecoderCheckpoint,
  options: WeightOptions,
): ConvertedWeights {
  const { dtype, quantize, dequantize = false, repack = false } = options;
  const converted: ConvertedWeights = { tensors: new Map(), formats: new Map() };
  const put = (layer: string, format: QuantizedFormat, parts: readonly MxArray[]): void => {
    converted.formats.set(layer, format);
    for (const [i, part] of ['weight', 'scales', 'biases'].entries()) {
      if (i < parts.length) converted.tensors.set(`${layer}.${part}`, parts[i]);
    }
  };
  const plain = (name: string, tensor: MxArray): void => {
    converted.tensors.set(name, inDtype(tensor, dtype));
  };
  for (const [name, tensor] of tensors) {
    const [layer, part] = [name.replace(/\.\w+$/, ''), name.split('.').at(-1)];
    const packing = packingOf(layer);
    if (packing && part !== 'bias') {
      if (part !== 'weight') continue;
      const keeps = 'mode' in packing && !quantize && !dequantize;
      if (keeps) {
        const [scales, biases] = ['scales', 'biases'].map((each) =>
          tensors.get(`${layer}.${each}`),
        );
        put(layer, packing, [
          tensor,
          ...[scales, biases].flatMap((x) => (x ? [inDtype(x, dtype)] : [])),
        ]);
        continue;
      }
      const affine = repack && !('mode' in packing) ? affineFormat(packing) : undefined;
      if (affine && !('mode' in packing)) {
        put(layer, affine, affineOf(tensor, packing));
        continue;
      }
    }
    const numbers =
      packing && part === 'weight' ? unpacked(tensors, layer, packing, dtype) : tensor;
    if (quantize && part === 'weight' && isPackable(name, numbers, quantize)) {
      const { groupSize, bits, mode } = quantize;
      put(layer, quantize, mx.quantize(inDtype(numbers, dtype), groupSize, bits, mode));
    } else plain(name, numbers);
  }
  return converted;
}

function isPackable(name: string, { shape }: MxArray, { groupSize }: QuantizedFormat): boolean {
  return shape.length === 2 && shape[1] % groupSize === 0 && !name.endsWith('norm.weight');
}

function unpacked(
  tensors: ReadonlyMap<string, MxArray>,
  layer: string,
  packing: NonNullable<ReturnType<DecoderCheckpoint['packingOf']>>,
  dtype: Dtype = 'float16',
): MxArray {
  const weight = tensors.get(`${layer}.weight`)!;
  if (!('mode' in packing)) {
    return mx.tidy(() => mx.blockDequantize(weight, packing.format).astype(dtype));
  }
  const { groupSize, bits, mode } = packing;
  const [scales, biases] = [tensors.get(`${layer}.scales`)!, tensors.get(`${layer}.biases`)];
  return mx.dequantize(weight, scales, biases, groupSize, bits, mode);
}

/** Packed numbers stay what they are. */
function inDtype(tensor: MxArray, dtype: Dtype | undefined): MxArray {
  if (dtype === undefined || !/^b?float/.test(tensor.dtype)) return tensor;
  return tensor.astype(dtype);
}
