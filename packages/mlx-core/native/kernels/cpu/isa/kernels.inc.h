// All kernels for the instruction set that the including source has chosen.
#pragma once

#include "kernels/cpu/isa/activations.inc.h"
#include "kernels/cpu/isa/attention.inc.h"
#include "kernels/cpu/isa/attention_decode.inc.h"
#include "kernels/cpu/isa/elementwise.inc.h"
#include "kernels/cpu/isa/format_kernels.inc.h"
#include "kernels/cpu/isa/matmul.inc.h"
#include "kernels/cpu/isa/rope.inc.h"

namespace mlx_runners::cpu::MLX_RUNNERS_ISA {

#define MLX_RUNNERS_STRING_(x) #x
#define MLX_RUNNERS_STRING(x) MLX_RUNNERS_STRING_(x)

extern const KernelTable kKernels;
constinit const KernelTable kKernels = {
    .name = MLX_RUNNERS_STRING(MLX_RUNNERS_ISA),
    .tile_rows = kMr,
    .tile_columns = kNr,
    .byte_tile_rows = kByteRows,
    .max_dot_rows = kMaxDotRows,
    .softmax_rows = softmax_rows,
    .gelu = gelu,
    .layer_norm_rows = layer_norm_rows,
    .dot_rows = dot_rows,
    .pack_columns = pack_columns,
    .gemm_block = gemm_block,
    .quantize_rows = quantize_rows,
    // In the order of WeightFormat.
    .formats =
        {
            dense_format<Floats>(),
            dense_format<Halves>(),
            dense_format<Bfloats>(),
            coded_format<BlockRow<Nibbles<false>>>(),
            coded_format<BlockRow<Nibbles<true>>>(),
            coded_format<BlockRow<FiveBits<false>>>(),
            coded_format<BlockRow<FiveBits<true>>>(),
            coded_format<BlockRow<SignedBytes>>(),
            coded_format<BlockRow<KGroups<false>>>(),
            coded_format<BlockRow<KGroups<true>>>(),
            coded_format<BlockRow<SixBits>>(),
            coded_format<AffineRow<4, FloatScale>>(),
            coded_format<AffineRow<4, HalfScale>>(),
            coded_format<AffineRow<4, BfloatScale>>(),
            coded_format<AffineRow<8, FloatScale>>(),
            coded_format<AffineRow<8, HalfScale>>(),
            coded_format<AffineRow<8, BfloatScale>>(),
            unpacked_format<BitsRow<2, FloatScale>>(),
            unpacked_format<BitsRow<2, HalfScale>>(),
            unpacked_format<BitsRow<2, BfloatScale>>(),
            unpacked_format<BitsRow<3, FloatScale>>(),
            unpacked_format<BitsRow<3, HalfScale>>(),
            unpacked_format<BitsRow<3, BfloatScale>>(),
            unpacked_format<BitsRow<5, FloatScale>>(),
            unpacked_format<BitsRow<5, HalfScale>>(),
            unpacked_format<BitsRow<5, BfloatScale>>(),
            unpacked_format<BitsRow<6, FloatScale>>(),
            unpacked_format<BitsRow<6, HalfScale>>(),
            unpacked_format<BitsRow<6, BfloatScale>>(),
            unpacked_format<Fp4Row<PowerScale>>(),
            unpacked_format<Fp4Row<SmallFloatScale>>(),
            plain_format<Fp8Row>(),
        },
    .pack_values = pack_values,
    .attention_prefill = attention_prefill,
    .attention_decode = attention_decode,
    .softmax_part = softmax_part,
    .scale_row = scale_row,
    .rms_norm_rows = rms_norm_rows,
    .add_rms_norm_rows = add_rms_norm_rows,
    .rope_rows = rope_rows,
    .glu = glu,
};

}  // namespace mlx_runners::cpu::MLX_RUNNERS_ISA
