// The memory of a layer's keys, or of its values: rows of numbers in a type that takes less room.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "mlx/array.h"

namespace mlx_runners::lm {

namespace mx = mlx::core;

// Q8 and Q4: codes of 8 and 4 bits with a float16 scale and bias for every 32 numbers, laid out as
// MLX's affine quantisation.
enum class KvStorage { Float32, Float16, BFloat16, Q8, Q4 };

// "float32", … ; throws CodedError "USAGE" for other names.
KvStorage kv_storage(const std::string& name);
const char* name_of(KvStorage storage);
constexpr bool is_quantized(KvStorage storage) { return storage >= KvStorage::Q8; }
constexpr int quantized_group = 32;
constexpr int bits_of(KvStorage storage) { return storage == KvStorage::Q8 ? 8 : 4; }

// Rows [batch, heads, slots, size]. Row (b, h, s) has the number (b · heads + h) · slots + s.
class KvPool {
 public:
  // Unwritten rows hold anything. Throws CodedError "MEMORY".
  KvPool(KvStorage storage, int batch, int heads, int slots, int size);
  // What ops have made of the arrays of such a pool.
  KvPool(KvStorage storage, int size, std::vector<mx::array> arrays)
      : storage_(storage), size_(size), arrays_(std::move(arrays)) {}

  KvStorage storage() const { return storage_; }
  int batch() const { return arrays_[0].shape(0); }
  int heads() const { return arrays_[0].shape(1); }
  int slots() const { return arrays_[0].shape(2); }
  int size() const { return size_; }
  size_t bytes() const;
  // One; or codes (uint32), scales and biases.
  const std::vector<mx::array>& arrays() const { return arrays_; }

  // Float32 only: all rows.
  const float* floats() const { return arrays_[0].data<float>(); }

  void write(int64_t row, const float* x);
  // Rows [row, row + count), as float32.
  void read(int64_t row, int64_t count, float* to) const;

  // Copies slots [from, from + count) of all heads to `target`, from its slot `to` on.
  void copy_slots(int from, int count, KvPool& target, int to) const;

 private:
  KvStorage storage_;
  int size_;
  std::vector<mx::array> arrays_;
};

}  // namespace mlx_runners::lm
