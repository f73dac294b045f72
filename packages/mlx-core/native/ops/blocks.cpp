// Rows of our own for weights in blocks, as GGUF files have them.
#include "ops/rows.h"
#include "quant/block_arrays.h"

namespace mlx_runners {
namespace {

using mx::array;
using S = mx::StreamOrDevice;

array block_dequantize(const array& blocks, const std::string& format, S s) {
  return dequantized(blocks, format_named(format), s);
}
array block_dequantize_on_cpu(const array& blocks, const std::string& format, S s) {
  return dequantized_on_cpu(blocks, format_named(format), s);
}
array block_quantize(const array& w, const std::string& format, S s) {
  return quantized(w, format_named(format), s);
}

}  // namespace

std::vector<Op> block_rows() {
  return {
      op("blockQuantize",
         "The blocks, uint8 [..., bytes of a row], of weights [..., K] in a GGUF format: F32, F16, "
         "BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K or Q6_K. K has to be a multiple of 32, "
         "for "
         "the K types of 256.",
         block_quantize, arg("w"), arg("format")),
      op("blockDequantize",
         "The weights, float32 [..., K], of blocks in a GGUF format: see blockQuantize.",
         block_dequantize, arg("blocks"), arg("format"))
          .on_cpu(block_dequantize_on_cpu),
  };
}

}  // namespace mlx_runners
