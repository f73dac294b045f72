"""Weights quantised by MLX in each of its modes, and products with them.

    python make_mlx_quant.py OUTDIR

w [24, 256], x [5, 256] and x2 [5, 24]: float32, cast to a format's dtype before use
For each format, <mode>_<bits>_g<group size>, with _f16 or _bf16 for other dtypes than float32:
  .wq int32 (the bits of MLX's uint32), .scales, .biases (affine only), .dequant [24, 256]
  .y [5, 24] = x times dequant transposed, .y_nt [5, 256] = x2 times dequant
The metadata `formats` maps the names to mode, bits, group_size and dtype. Scales of the floating-point
modes are uint8: powers of two (e8m0) in mxfp4 and mxfp8, e4m3 in nvfp4.
"""

import importlib.metadata
import json

import mlx.core as mx
import numpy as np
import torch

from golden_file import save_golden, write_all

VARIANTS = [dict(name='mlx_quant', seed=91, columns=24, depth=256, rows=5)]
MODES = [('affine', bits, group) for bits in (4, 8) for group in (32, 64, 128)]
MODES += [('mxfp4', 4, 32), ('mxfp8', 8, 32), ('nvfp4', 4, 16)]
SUFFIXES = {'float32': '', 'float16': '_f16', 'bfloat16': '_bf16'}


def make(variant, path):
    mx.set_default_device(mx.cpu)
    random = np.random.default_rng(variant['seed'])
    columns, depth, rows = (variant[key] for key in ('columns', 'depth', 'rows'))
    w = awkward_weights(random, columns, depth)
    x = random.standard_normal((rows, depth)).astype(np.float32)
    x2 = random.standard_normal((rows, columns)).astype(np.float32)
    tensors = dict(w=w, x=x, x2=x2)
    formats = {}
    for mode, bits, group in MODES:
        for dtype, suffix in SUFFIXES.items():
            if mode != 'affine' and dtype == 'float16':
                continue
            name = f'{mode}_{bits}_g{group}{suffix}'
            formats[name] = dict(mode=mode, bits=bits, group_size=group, dtype=dtype)
            add_products(tensors, name, mode, bits, group, getattr(mx, dtype))
    save_golden(
        path, tensors,
        source=f'mlx {importlib.metadata.version("mlx")} CPU, seed {variant["seed"]}',
        notes='wq is uint32 stored as int32 bits. x, x2, w are cast to the dtype of the key before '
        'use. Measured against x @ dequant in float64 with x cast to the dtype: fp32 keys within '
        '1e-4; fp16/bf16 y and y_nt are off by up to 0.4 / 3 percent of sum|x||w|, more than rounding '
        'the final result explains, so do not ask other kernels (GPU) for equality with them: compare '
        'with x @ dequant.',
        extra=dict(formats=json.dumps(formats)),
    )


def awkward_weights(random, columns, depth):
    """Rows of zeros, of a wide range, with an outlier, of one sign, with a constant group."""
    w = random.standard_normal((columns, depth)).astype(np.float32) * 0.3
    w[0, :40] = 0
    w[1] *= 20
    w[2, 5] = 9.0
    w[3] = np.abs(w[3]) + 0.5
    w[4, 64:128] = 0.25
    return w


def add_products(tensors, name, mode, bits, group, dtype):
    form = dict(group_size=group, bits=bits, mode=mode)
    wq, scales, *biases = mx.quantize(mx.array(tensors['w']).astype(dtype), **form)
    biases = biases[0] if biases else None
    kept = {} if mode == 'affine' else dict(dtype=dtype)
    x, x2 = (mx.array(tensors[key]).astype(dtype) for key in ('x', 'x2'))
    results = dict(
        wq=wq,
        scales=scales,
        dequant=mx.dequantize(wq, scales, biases, **form, **kept),
        y=mx.quantized_matmul(x, wq, scales, biases, transpose=True, **form),
        y_nt=mx.quantized_matmul(x2, wq, scales, biases, transpose=False, **form),
    )
    if biases is not None:
        results['biases'] = biases
    tensors.update({f'{name}.{key}': as_torch(array) for key, array in results.items()})


def as_torch(array):
    if array.dtype == mx.bfloat16:
        bits = np.array(array.view(mx.uint16)).view(np.int16)
        return torch.from_numpy(bits.copy()).view(torch.bfloat16)
    numbers = np.array(array)
    return torch.from_numpy(numbers.view(np.int32) if numbers.dtype == np.uint32 else numbers)


if __name__ == '__main__':
    write_all(VARIANTS, make)
