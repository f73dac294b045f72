#include "quant/block_formulas.h"

#include "kernels/cpu/fused_primitive.h"
#include "mlx/ops.h"

namespace mlx_runners {
namespace mx = mlx::core;
namespace {

using mx::array;

// Blocks one below the other, [blocks, bytes], taken apart from the front.
class Fields {
 public:
  Fields(const array& blocks, BlockFormat format, mx::StreamOrDevice s)
      : s_(s), blocks_(mx::reshape(blocks, {-1, block_size(format).bytes}, s)) {}

  array bytes(int count) {
    const int start = next_;
    next_ += count;
    return mx::slice(blocks_, {0, start}, {blocks_.shape(0), next_}, s_);
  }
  array as(mx::Dtype dtype, int bytes) {
    return mx::view(cpu::contiguous(this->bytes(bytes), mx::to_stream(s_)), dtype, s_);
  }
  // [blocks, 1, 1]
  array half() { return number(mx::expand_dims(as(mx::float16, 2), -1, s_)); }

  array number(const array& x) const { return mx::astype(x, mx::float32, s_); }
  array bits(const array& x, int mask) const { return mx::bitwise_and(x, byte(mask), s_); }
  array shifted_down(const array& x, const array& by) const { return mx::right_shift(x, by, s_); }
  array shifted_up(const array& x, int by) const { return mx::left_shift(x, byte(by), s_); }
  array either(const array& x, const array& y) const { return mx::bitwise_or(x, y, s_); }
  array shaped(const array& x, mx::Shape shape) const {
    return mx::reshape(x, std::move(shape), s_);
  }
  array joined(const array& x, const array& y) const { return mx::concatenate({x, y}, 1, s_); }
  static array byte(int value) { return array(static_cast<uint8_t>(value)); }
  // [values, 1]: each of them applied to a row.
  static array column(std::initializer_list<uint8_t> values) {
    return array(values.begin(), {static_cast<int>(values.size()), 1}, mx::uint8);
  }

  // [blocks, groups, size] of numbers
  array line(const array& codes, const array& scale, const array& offset) const {
    return mx::add(mx::multiply(scale, number(codes), s_), offset, s_);
  }
  array around(const array& codes, float middle, const array& scale) const {
    return mx::multiply(scale, mx::subtract(number(codes), array(middle), s_), s_);
  }
  array product(const array& x, const array& y) const { return mx::multiply(x, y, s_); }
  array negative(const array& x) const { return mx::negative(x, s_); }

 private:
  mx::StreamOrDevice s_;
  array blocks_;
  int next_ = 0;
};

// [blocks, 1, 32] of codes out of 16 bytes, and a fifth bit each out of 4.
array codes_of_32(Fields& fields, bool fifth) {
  const array fifth_bits = fifth ? fields.bytes(4) : fields.byte(0);
  array codes = fields.shaped(fields.bytes(16), {-1, 1, 16});
  codes = fields.shaped(fields.bits(fields.shifted_down(codes, fields.column({0, 4})), 15),
                        {-1, 1, 32});
  if (!fifth) return codes;
  const array spread = mx::swapaxes(fields.column({0, 1, 2, 3, 4, 5, 6, 7}), 0, 1);
  const array bits =
      fields.bits(fields.shifted_down(fields.shaped(fifth_bits, {-1, 4, 1}), spread), 1);
  return fields.either(codes, fields.shifted_up(fields.shaped(bits, {-1, 1, 32}), 4));
}

// Q4_K, and Q5_K with a fifth bit: [blocks, 8, 32].
array groups_of_32(Fields& fields, bool fifth) {
  const array scale = fields.half(), min = fields.half();
  const array first = fields.bytes(4), second = fields.bytes(4), third = fields.bytes(4);
  const auto of_group = [&](const array& low, const array& upper) {
    const array above = fields.shifted_up(fields.shifted_down(low, fields.byte(6)), 4);
    const array all = fields.joined(fields.bits(low, 63), fields.either(upper, above));
    return fields.number(fields.shaped(all, {-1, 8, 1}));
  };
  const array scales = of_group(first, fields.bits(third, 15));
  const array mins = of_group(second, fields.shifted_down(third, fields.byte(4)));
  const array fifth_bits = fifth ? fields.shaped(fields.bytes(32), {-1, 1, 32}) : fields.byte(0);
  array codes = fields.shaped(fields.bytes(128), {-1, 4, 1, 32});
  codes = fields.shaped(fields.bits(fields.shifted_down(codes, fields.column({0, 4})), 15),
                        {-1, 8, 32});
  if (fifth) {
    const array shifts = fields.column({0, 1, 2, 3, 4, 5, 6, 7});
    const array bits = fields.bits(fields.shifted_down(fifth_bits, shifts), 1);
    codes = fields.either(codes, fields.shifted_up(bits, 4));
  }
  return fields.line(codes, fields.product(scale, scales),
                     fields.negative(fields.product(min, mins)));
}

// Q6_K: [blocks, 16, 16].
array groups_of_16(Fields& fields) {
  array codes = fields.shaped(fields.bytes(128), {-1, 2, 1, 64});
  codes = fields.bits(fields.shifted_down(codes, fields.column({0, 4})), 15);
  array upper = fields.shaped(fields.bytes(64), {-1, 2, 1, 32});
  upper = fields.bits(fields.shifted_down(upper, fields.column({0, 2, 4, 6})), 3);
  codes = fields.either(fields.shaped(codes, {-1, 2, 4, 32}), fields.shifted_up(upper, 4));
  const array scales = fields.shaped(fields.number(fields.as(mx::int8, 16)), {-1, 16, 1});
  const array scale = fields.half();
  return fields.around(fields.shaped(codes, {-1, 16, 16}), 32, fields.product(scale, scales));
}

}  // namespace

array block_formula(const array& blocks, BlockFormat format, mx::StreamOrDevice s) {
  Fields fields(blocks, format, s);
  switch (format) {
    case BlockFormat::F32:
      return fields.as(mx::float32, 4);
    case BlockFormat::F16:
      return fields.number(fields.as(mx::float16, 2));
    case BlockFormat::BF16:
      return fields.number(fields.as(mx::bfloat16, 2));
    case BlockFormat::Q4_0:
    case BlockFormat::Q5_0: {
      const bool fifth = format == BlockFormat::Q5_0;
      const array scale = fields.half();
      return fields.around(codes_of_32(fields, fifth), fifth ? 16 : 8, scale);
    }
    case BlockFormat::Q4_1:
    case BlockFormat::Q5_1: {
      const array scale = fields.half(), min = fields.half();
      return fields.line(codes_of_32(fields, format == BlockFormat::Q5_1), scale, min);
    }
    case BlockFormat::Q8_0: {
      const array scale = fields.half();
      return fields.product(scale, fields.number(mx::expand_dims(fields.as(mx::int8, 32), 1, s)));
    }
    case BlockFormat::Q4_K:
    case BlockFormat::Q5_K:
      return groups_of_32(fields, format == BlockFormat::Q5_K);
    case BlockFormat::Q6_K:
      return groups_of_16(fields);
  }
  return fields.as(mx::float32, 4);
}

}  // namespace mlx_runners
