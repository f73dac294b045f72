#include "lm/kv_pool.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "core/errors.h"
#include "core/memory_limit.h"
#include "kernels/cpu/dispatch.h"
#include "mlx/allocator.h"
#include "quant/half.h"

namespace mlx_runners::lm {
namespace {

constexpr std::array<const char*, 5> names{"float32", "float16", "bfloat16", "q8", "q4"};

mx::array uninitialised(mx::Shape shape, mx::Dtype dtype) {
  double bytes = dtype.size();  // which may be beyond 64 bits
  for (const int size : shape) bytes *= size;
  require_memory(bytes);
  const auto allocated = std::max<size_t>(static_cast<size_t>(bytes), 1);
  return mx::array(mx::allocator::malloc(allocated), std::move(shape), dtype);
}

mx::Dtype dtype_of(KvStorage storage) {
  if (storage == KvStorage::Float32) return mx::float32;
  return storage == KvStorage::Float16 ? mx::float16 : mx::bfloat16;
}

cpu::WeightFormat format_of(KvStorage storage) {
  switch (storage) {
    case KvStorage::Float32:
      return cpu::WeightFormat::F32;
    case KvStorage::Float16:
      return cpu::WeightFormat::F16;
    case KvStorage::BFloat16:
      return cpu::WeightFormat::BF16;
    case KvStorage::Q8:
      return cpu::WeightFormat::Affine8_F16;
    default:
      return cpu::WeightFormat::Affine4_F16;
  }
}

// The scale and the bias are rounded first, so that codes make up for it.
void quantize_group(const float* x, int bits, uint8_t* codes, uint16_t* scale, uint16_t* bias) {
  float low = x[0], high = x[0];
  for (int i = 1; i < quantized_group; ++i) {
    low = std::min(low, x[i]);
    high = std::max(high, x[i]);
  }
  const int most = (1 << bits) - 1;
  *scale = half_of_float((high - low) / static_cast<float>(most));
  *bias = half_of_float(low);
  const float step = float_of_half(*scale);
  const float factor = step > 0 ? 1 / step : 0;
  const float start = float_of_half(*bias);
  uint8_t code[quantized_group];
  for (int i = 0; i < quantized_group; ++i) {
    // The comparisons are such that NaN becomes 0.
    const float exact = (x[i] - start) * factor + 0.5f;
    const float at_most = exact < static_cast<float>(most) ? exact : static_cast<float>(most);
    code[i] = static_cast<uint8_t>(at_most > 0 ? at_most : 0);
  }
  if (bits == 8) {
    std::memcpy(codes, code, quantized_group);
  } else {
    for (int i = 0; i < quantized_group / 2; ++i) codes[i] = code[2 * i] | code[2 * i + 1] << 4;
  }
}

size_t row_bytes(const mx::array& array) { return array.shape(3) * array.itemsize(); }

}  // namespace

KvStorage kv_storage(const std::string& name) {
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) {
    throw CodedError("USAGE", "storage has to be float32, float16, bfloat16, q8 or q4");
  }
  return static_cast<KvStorage>(found - names.begin());
}

const char* name_of(KvStorage storage) { return names[static_cast<size_t>(storage)]; }

KvPool::KvPool(KvStorage storage, int batch, int heads, int slots, int size)
    : storage_(storage), size_(size) {
  if (!is_quantized(storage)) {
    arrays_ = {uninitialised({batch, heads, slots, size}, dtype_of(storage))};
    return;
  }
  const int words = size / (32 / bits_of(storage));
  const int groups = size / quantized_group;
  arrays_ = {uninitialised({batch, heads, slots, words}, mx::uint32),
             uninitialised({batch, heads, slots, groups}, mx::float16),
             uninitialised({batch, heads, slots, groups}, mx::float16)};
}

size_t KvPool::bytes() const {
  size_t bytes = 0;
  for (const mx::array& array : arrays_) bytes += array.nbytes();
  return bytes;
}

void KvPool::write(int64_t row, const float* x) {
  char* to = arrays_[0].data<char>() + row * row_bytes(arrays_[0]);
  switch (storage_) {
    case KvStorage::Float32:
      std::memcpy(to, x, size_ * sizeof(float));
      return;
    case KvStorage::Float16:
      std::transform(x, x + size_, reinterpret_cast<uint16_t*>(to), half_of_float);
      return;
    case KvStorage::BFloat16:
      std::transform(x, x + size_, reinterpret_cast<uint16_t*>(to), bfloat_of_float);
      return;
    default:
      break;
  }
  const int bits = bits_of(storage_);
  const int groups = size_ / quantized_group;
  auto* codes = reinterpret_cast<uint8_t*>(to);
  uint16_t* scales = arrays_[1].data<uint16_t>() + row * groups;
  uint16_t* biases = arrays_[2].data<uint16_t>() + row * groups;
  for (int group = 0; group < groups; ++group) {
    quantize_group(x + group * quantized_group, bits, codes + group * quantized_group * bits / 8,
                   scales + group, biases + group);
  }
}

void KvPool::read(int64_t row, int64_t count, float* to) const {
  if (storage_ == KvStorage::Float32) {
    std::memcpy(to, floats() + row * size_, count * size_ * sizeof(float));
    return;
  }
  cpu::WeightRows rows{};
  rows.codes = arrays_[0].data<uint8_t>();
  rows.row_bytes = static_cast<int64_t>(row_bytes(arrays_[0]));
  rows.depth = size_;
  if (is_quantized(storage_)) {
    rows.scales = arrays_[1].data<uint8_t>();
    rows.biases = arrays_[2].data<uint8_t>();
    rows.scale_step = size_ / quantized_group;
  }
  const auto dequantize = cpu::kernels().formats[static_cast<int>(format_of(storage_))].dequantize;
  for (int64_t i = 0; i < count; ++i) dequantize(rows, row + i, 0, size_, to + i * size_);
}

void KvPool::copy_slots(int from, int count, KvPool& target, int to) const {
  const int64_t all_heads = int64_t{batch()} * heads();
  for (size_t i = 0; i < arrays_.size(); ++i) {
    const size_t bytes = row_bytes(arrays_[i]);
    const char* source = arrays_[i].data<char>() + from * bytes;
    char* place = target.arrays_[i].data<char>() + to * bytes;
    for (int64_t head = 0; head < all_heads; ++head) {
      std::memcpy(place + head * target.slots() * bytes, source + head * slots() * bytes,
                  count * bytes);
    }
  }
}

}  // namespace mlx_runners::lm
