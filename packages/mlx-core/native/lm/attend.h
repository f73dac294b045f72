// Attention over a layer's memory, on the CPU.
#pragma once

#include <span>

#include "kernels/cpu/kernel_table.h"
#include "lm/kv_layer.h"
#include "lm/kv_pool.h"

namespace mlx_runners::lm {

// cpu::attention of op, of which k, v, their strides and `keys` are yet to be filled in, over the
// slots in `runs`, oldest first, of all sequences in the pools. float32 in one run, and for few
// queries in two, is read in place, all else by way of working memory.
void attend(cpu::Attention op, const KvPool& keys, const KvPool& values,
            std::span<const SlotRun> runs);

}  // namespace mlx_runners::lm
