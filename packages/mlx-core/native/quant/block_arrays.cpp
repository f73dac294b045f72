#include "quant/block_arrays.h"

#include <limits>
#include <string>

#include "core/errors.h"
#include "kernels/cpu/fused_primitive.h"
#include "mlx/ops.h"
#include "quant/block_formulas.h"
#include "quant/quantize.h"

namespace mlx_runners {
namespace mx = mlx::core;
namespace {

class DequantizeBlocks : public cpu::FusedPrimitive {
 public:
  DequantizeBlocks(mx::Stream stream, cpu::Composed composed, BlockFormat format)
      : FusedPrimitive(stream, std::move(composed)), format_(format) {}
  DEFINE_NAME(DequantizeBlocks)

  void eval_cpu(const std::vector<mx::array>& inputs, mx::array& out) override {
    cpu::allocate(out);
    cpu::dispatch(stream(),
                  [format = format_, from = inputs[0].data<uint8_t>(), to = out.data<float>(),
                   count = static_cast<int64_t>(inputs[0].size()) / block_size(format_).bytes] {
                    dequantize_blocks(format, from, count, to);
                  });
  }

 private:
  BlockFormat format_;
};

// Has no derivative: its results are codes.
class QuantizeBlocks : public mx::UnaryPrimitive {
 public:
  QuantizeBlocks(mx::Stream stream, BlockFormat format) : UnaryPrimitive(stream), format_(format) {}
  DEFINE_NAME(QuantizeBlocks)

  void eval_cpu(const std::vector<mx::array>& inputs, mx::array& out) override {
    cpu::allocate(out);
    cpu::dispatch(stream(),
                  [format = format_, from = inputs[0].data<float>(), to = out.data<uint8_t>(),
                   count = static_cast<int64_t>(inputs[0].size()) / block_size(format_).weights] {
                    quantize_blocks(format, from, count, to);
                  });
  }
  void eval_gpu(const std::vector<mx::array>&, mx::array&) override {
    throw std::runtime_error("[blockQuantize] is computed on the CPU.");
  }

 private:
  BlockFormat format_;
};

// The shape when every `from` elements of the last axis become `to`.
mx::Shape resized(const mx::array& array, int from, int to, BlockFormat format,
                  const char* elements) {
  if (array.ndim() == 0) throw CodedError("SHAPE", "a number alone isn't a row");
  const int length = array.shape(-1);
  const std::string name(name_of(format));
  if (length % from != 0) {
    throw CodedError("SHAPE", "rows of " + std::to_string(length) + ' ' + elements +
                                  " aren't whole blocks: those of " + name + " have " +
                                  std::to_string(from));
  }
  const int64_t resized = int64_t{length} / from * to;
  if (resized > std::numeric_limits<int>::max()) {
    throw CodedError("SHAPE", "rows would have " + std::to_string(resized) + " elements");
  }
  mx::Shape shape = array.shape();
  shape.back() = static_cast<int>(resized);
  return shape;
}

// What blocks of one weight are, apart from bytes.
std::optional<mx::Dtype> own_dtype(BlockFormat format) {
  switch (format) {
    case BlockFormat::F32:
      return mx::float32;
    case BlockFormat::F16:
      return mx::float16;
    case BlockFormat::BF16:
      return mx::bfloat16;
    default:
      return std::nullopt;
  }
}

}  // namespace

mx::Shape dequantized_shape(const char* name, const mx::array& blocks, BlockFormat format) {
  const auto own = own_dtype(format);
  if (blocks.dtype() == own) {
    if (blocks.ndim() == 0) throw CodedError("SHAPE", "a number alone isn't a row");
    return blocks.shape();
  }
  if (blocks.dtype() != mx::uint8) {
    const std::string numbers = !own                 ? ""
                                : own == mx::float32 ? ", or float32"
                                : own == mx::float16 ? ", or float16"
                                                     : ", or bfloat16";
    throw CodedError("DTYPE", std::string(name) + " of format " + std::string(name_of(format)) +
                                  " has to be uint8, the bytes of a file" + numbers);
  }
  const auto [weights, bytes] = block_size(format);
  return resized(blocks, bytes, weights, format, "bytes");
}

BlockFormat format_named(const std::string& name) {
  if (const auto format = block_format_named(name)) return *format;
  throw CodedError("DTYPE", "no block format has this name; there are " + block_format_names());
}

mx::array dequantized(const mx::array& blocks, BlockFormat format, mx::StreamOrDevice s) {
  const mx::Shape shape = dequantized_shape("blocks", blocks, format);
  if (blocks.dtype() != mx::uint8) return mx::astype(blocks, mx::float32, s);
  if (blocks.size() == 0) return mx::zeros(shape, mx::float32, s);
  return mx::reshape(block_formula(blocks, format, s), shape, s);
}

mx::array dequantized_on_cpu(const mx::array& blocks, BlockFormat format, mx::StreamOrDevice s) {
  const mx::Stream stream = mx::to_stream(s);
  mx::Shape shape = dequantized_shape("blocks", blocks, format);
  if (blocks.dtype() != mx::uint8) return mx::astype(blocks, mx::float32, stream);
  auto composed = [format, stream](const std::vector<mx::array>& in) {
    return std::vector<mx::array>{dequantized(in[0], format, stream)};
  };
  return mx::array(std::move(shape), mx::float32,
                   std::make_shared<DequantizeBlocks>(stream, std::move(composed), format),
                   {cpu::contiguous(blocks, stream)});
}

mx::array quantized(const mx::array& weights, BlockFormat format, mx::StreamOrDevice s) {
  const auto [size, bytes] = block_size(format);
  const mx::Shape shape = resized(weights, size, bytes, format, "weights");
  const mx::Stream given = mx::to_stream(s);
  const mx::Stream stream =
      given.device == mx::Device::cpu ? given : mx::default_stream(mx::Device::cpu);
  const mx::array rows = cpu::contiguous(mx::astype(weights, mx::float32, stream), stream);
  return mx::array(shape, mx::uint8, std::make_shared<QuantizeBlocks>(stream, format), {rows});
}

}  // namespace mlx_runners
