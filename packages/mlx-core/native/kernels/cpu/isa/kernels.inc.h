// All kernels for the instruction set that the including source has chosen.
#pragma once

#include "kernels/cpu/isa/attention.inc.h"
#include "kernels/cpu/isa/elementwise.inc.h"
#include "kernels/cpu/isa/matmul.inc.h"

namespace mlx_runners::cpu::MLX_RUNNERS_ISA {

#define MLX_RUNNERS_STRING_(x) #x
#define MLX_RUNNERS_STRING(x) MLX_RUNNERS_STRING_(x)

extern const KernelTable kKernels;
constinit const KernelTable kKernels = {
    .name = MLX_RUNNERS_STRING(MLX_RUNNERS_ISA),
    .tile_rows = kMr,
    .tile_columns = kNr,
    .softmax_rows = softmax_rows,
    .gelu = gelu,
    .layer_norm_rows = layer_norm_rows,
    .dot_rows = dot_rows,
    .pack_columns = pack_columns,
    .gemm_block = gemm_block,
    .pack_values = pack_values,
    .attention_prefill = attention_prefill,
    .attention_decode = attention_decode,
};

}  // namespace mlx_runners::cpu::MLX_RUNNERS_ISA
