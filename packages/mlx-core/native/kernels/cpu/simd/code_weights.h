// Weights by way of their codes, where there is no shorter way. Included by avx2.h, neon.h and
// baseline.h.
#pragma once

namespace mlx_runners::cpu::MLX_RUNNERS_ISA {

MLX_RUNNERS_INLINE void code_weights(Bytes codes, F32 scale, F32 offset, F32* out) {
  code_floats(codes, out);
#pragma GCC unroll 8
  for (int v = 0; v < 32 / kWidth; ++v) {
    out[v] = fma(out[v], scale, offset);
  }
}
MLX_RUNNERS_INLINE void nibble_weights(const uint8_t* p, F32 scale, F32 offset, F32* out) {
  code_weights(nibbles(p), scale, offset, out);
}
MLX_RUNNERS_INLINE void nibble_pair_weights(const uint8_t* p, F32 scale, F32 offset, F32* out) {
  code_weights(nibble_pairs(p), scale, offset, out);
}
template <bool kHigh>
MLX_RUNNERS_INLINE void nibble_side_weights(const uint8_t* p, F32 scale, F32 offset, F32* out) {
  const Bytes packed = load_bytes(p);
  code_weights(low_nibbles(kHigh ? shift_right<4>(packed) : packed), scale, offset, out);
}

}  // namespace mlx_runners::cpu::MLX_RUNNERS_ISA
