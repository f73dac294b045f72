// The thin SIMD layer: one vector type per instruction set, all with the same operations, so that
// a kernel is written once and compiled once per instruction set.
//
// Only the files in isa/ include this header, each after defining one MLX_RUNNERS_ISA_* macro. All
// is `static inline` inside a namespace named for the instruction set; kernel code must not use
// inline functions or templates of the standard library, whose copies the linker would merge with
// those of the baseline code (an AVX-512 `std::min` run on a CPU without AVX-512).
//
// F32: `kWidth` floats.
//   load, store             unaligned
//   load_n, store_n         the first n lanes only (0 <= n <= kWidth); load_n fills the rest
//   set1, + - * /, fma(a, b, c) = a*b + c, fnma(a, b, c) = c - a*b
//   max(a, b), min(a, b)    b where the lanes don't compare (a NaN in b is kept)
//   gt(a, b) -> Mask        false for NaN;   select(mask, a, b) = mask ? a : b
//   mul_pow2(x, t)          x * 2^n for t = MLX_RUNNERS_ROUND_MAGIC + n, n an integer, and a normal
//                           result
//   hsum, hmax, first       a vector's sum, largest lane, lane 0
//   store_hsum4(p, a..d)    the sums of four vectors
//   transpose4              4x4 block of floats from memory to memory
// kMr, kNv: rows and vectors of the register tile of the matrix kernels.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define MLX_RUNNERS_INLINE static inline __attribute__((always_inline))

// Adding it to a float of magnitude below 2^22 rounds that to an integer, left in the low bits.
#define MLX_RUNNERS_ROUND_MAGIC 12582912.0f

#if defined(MLX_RUNNERS_ISA_AVX512)
#define MLX_RUNNERS_ISA avx512
#include "kernels/cpu/simd/avx512.h"
#elif defined(MLX_RUNNERS_ISA_AVX2)
#define MLX_RUNNERS_ISA avx2
#include "kernels/cpu/simd/avx2.h"
#elif defined(MLX_RUNNERS_ISA_NEON)
#define MLX_RUNNERS_ISA neon
#include "kernels/cpu/simd/neon.h"
#elif defined(MLX_RUNNERS_ISA_BASELINE)
#define MLX_RUNNERS_ISA baseline
#include "kernels/cpu/simd/baseline.h"
#else
#error "define one MLX_RUNNERS_ISA_* macro before including simd.h"
#endif
