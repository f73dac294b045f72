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
//   swap_pairs              lanes 1, 0, 3, 2, …
//   hsum, hmax, first       a vector's sum, largest lane, lane 0
//   store_hsum4(p, a..d)    the sums of four vectors
//   transpose4              4x4 block of floats from memory to memory
//
// Bytes: 32 bytes, codes of weights (unsigned) or of activations (signed).
//   load_bytes, set1_bytes, & | ^, shift_left<n>, shift_right<n> of each byte, low_nibbles
//   nibbles(p)              of 16 bytes: the low ones, then the high ones
//   nibble_pairs(p)         of 16 bytes: low and high of byte 0, of byte 1, ...
//   look_up(table, codes)   for each code, which is below 16, that byte of the table
//   spread_bits(p, value)   value for the bits of 4 bytes that are 1, lowest first, 0 for the
//                           others
//   round_to_bytes(x, f, p) rounds 32 floats times f, of magnitude up to 127, to signed bytes
//   code_floats(codes, out)                     32 codes as floats
//   bit_codes<n>(p), bit_floats<n>(p, out)      32 codes of n bits, one after the other
//   nibble_weights, nibble_pair_weights(p, scale, offset, out)
//                           code * scale + offset for what nibbles, nibble_pairs give
//   nibble_side_weights<high>(p, scale, offset, out)
//                           the same for the low or the high nibbles of 32 bytes
//   load_halves, load_bfloats                   kWidth floats of 16 bits
//   half_to_float; half_floats(four halves in 64 bits, out)
//   scale8_unsigned, scale8_signed(eight bytes in 64 bits, factor, out)   integers times a factor
// Int: kWidth 32-bit integers, or 4 kWidth bytes. zero_int, load_int, set1_int (of four bytes),
//   splat (of a byte), & ^ of bits, - of integers, to_float
//   times_256; store_rounded(p, F32)   of 32-bit integers
//   dot4<narrow>(sum, codes, x)         adds the dot product of the four bytes of each lane;
//                                       narrow: the codes are below 64
//   load_quads<stride>(p)               the last 16 bytes of each stride from p on
//   halves_of_four<stride>(p, a, b)     F32 of as many halves, from p[0], p[1], p[2] and p[3] on,
//   as
//                                       there are quads, `stride` apart, and of those after them
//   spread_part<r>(a)                   F32 of the r-th quarter of those, each over a quad
//   store_part_sums(p, a)               the sums of the four quarters
//   load_pair<stride>(p)                as many of the 32 bytes each from p and p + stride as fit
//   join(a, b); part<v>(a)              two Bytes where they fit; vector v of Bytes elsewhere
//   select_bits<mask>(a, b)             bits of a where the mask of a byte has them, else of b
//   shift_words<n>, shift_word_halves<n, m>(a)
//                                       of words of 16 bits, up, or down where n < 0; or of bytes;
//                                       by m where a second 32 bytes fit
//   bit_bytes<value>(bits)              value for bits that are 1, lowest first, 0 for the others
//   byte_floats<p, bits>                F32 of the low bits of byte p of each lane, times 256^p
//                                       for where it stands; times 1 for the uppermost of 8 bits
//   spread_quads<i, j, k, l>(p)         F32 with p[i] in the lanes of the first quad, and so on
//
// kMultipliesBytes: dot4 is one instruction.
// kMr, kNv: rows and vectors of the register tile of the matrix kernels.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define MLX_RUNNERS_ALWAYS_INLINE __attribute__((always_inline))
#define MLX_RUNNERS_INLINE static inline MLX_RUNNERS_ALWAYS_INLINE

// Adding it to a float of magnitude below 2^22 rounds that to an integer, left in the low bits.
#define MLX_RUNNERS_ROUND_MAGIC 12582912.0f

#if defined(MLX_RUNNERS_ISA_AVX512VNNI)
#define MLX_RUNNERS_ISA avx512vnni
#include "kernels/cpu/simd/avx512.h"
#elif defined(MLX_RUNNERS_ISA_AVX512)
#define MLX_RUNNERS_ISA avx512
#include "kernels/cpu/simd/avx512.h"
#elif defined(MLX_RUNNERS_ISA_AVX2VNNI)
#define MLX_RUNNERS_ISA avx2vnni
#include "kernels/cpu/simd/avx2.h"
#elif defined(MLX_RUNNERS_ISA_AVX2)
#define MLX_RUNNERS_ISA avx2
#include "kernels/cpu/simd/avx2.h"
#elif defined(MLX_RUNNERS_ISA_NEONDOTPROD)
#define MLX_RUNNERS_ISA neondotprod
#include "kernels/cpu/simd/neon.h"
#elif defined(MLX_RUNNERS_ISA_NEON)
#define MLX_RUNNERS_ISA neon
#include "kernels/cpu/simd/neon.h"
#elif defined(MLX_RUNNERS_ISA_BASELINE)
#define MLX_RUNNERS_ISA baseline
#include "kernels/cpu/simd/baseline.h"
#else
#error "define one MLX_RUNNERS_ISA_* macro before including simd.h"
#endif

#include "kernels/cpu/simd/bit_codes.h"
