"""Blocks of GGUF's quantised types, and what gguf-py makes of them.

    python make_gguf.py OUTDIR

<type>.raw uint8 [rows, bytes], <type>.dequant [rows, weights]: random bits with finite float16
  scales, also negative ones
<type>.w [rows, weights], .w_raw, .w_dequant: weights, quantised and back, where gguf-py can quantise
A row is a number of consecutive blocks.
"""

import importlib.metadata

import gguf
import numpy as np
from gguf.quants import dequantize, quantize

from golden_file import save_golden, write_all

VARIANTS = [dict(name='gguf_blocks', seed=92, rows=4, blocks=3)]
TYPES = ['Q4_0', 'Q4_1', 'Q5_0', 'Q5_1', 'Q8_0', 'Q4_K', 'Q5_K', 'Q6_K']
WITH_MINIMUM = ('Q4_1', 'Q5_1', 'Q4_K', 'Q5_K')


def make(variant, path):
    random = np.random.default_rng(variant['seed'])
    tensors = {}
    for name in TYPES:
        type_ = gguf.GGMLQuantizationType[name]
        weights, bytes_ = gguf.GGML_QUANT_SIZES[type_]
        shape = (variant['rows'], variant['blocks'] * (256 // weights))
        raw = random_blocks(random, name, shape, bytes_)
        tensors[f'{name}.raw'] = raw
        tensors[f'{name}.dequant'] = dequantize(raw, type_).astype(np.float32)
        try:
            w = random.standard_normal((shape[0], shape[1] * weights)) * 0.2
            w = w.astype(np.float32)
            w_raw = quantize(w, type_)
        except NotImplementedError:
            continue
        tensors[f'{name}.w'] = w
        tensors[f'{name}.w_raw'] = w_raw
        tensors[f'{name}.w_dequant'] = dequantize(w_raw, type_).astype(np.float32)
    save_golden(
        path, tensors,
        source=f'gguf {importlib.metadata.version("gguf")}, seed {variant["seed"]}',
        notes='raw: random bit fields with finite fp16 scales (also negative). w_raw: w quantised by '
        'gguf-py (not available for K types). Row = consecutive blocks.',
    )


def random_blocks(random, name, shape, bytes_):
    raw = random.integers(0, 256, (*shape, bytes_), dtype=np.uint8)

    def halves(low, high):
        numbers = random.uniform(low, high, shape) * random.choice([-1, 1], shape)
        return numbers.astype(np.float16).view(np.uint8).reshape(*shape, 2)

    if name == 'Q6_K':
        raw[..., -2:] = halves(1e-4, 0.02)
    else:
        raw[..., :2] = halves(1e-3, 0.1)
        if name in WITH_MINIMUM:
            raw[..., 2:4] = halves(1e-3, 0.1)
    return raw.reshape(shape[0], -1)


if __name__ == '__main__':
    write_all(VARIANTS, make)
