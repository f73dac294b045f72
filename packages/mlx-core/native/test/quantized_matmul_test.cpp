// Products with quantised weights on arrays between forbidden pages, against plain loops in double:
// every format, every row's bytes at any alignment.
#include "kernels/cpu/quantized_matmul.h"

#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "guarded.h"
#include "harness.h"
#include "kernels/cpu/dispatch.h"
#include "quant/half.h"
#include "quant/quantize.h"

using namespace mlx_runners;
using namespace mlx_runners::cpu;
using namespace mlx_runners::testing;

namespace {

// Rounding of float32 sums of n numbers, relative to the sum of their magnitudes.
double rounding(int64_t n) { return 1.2e-7 * (8 + std::sqrt(static_cast<double>(n))); }

float number_below(float limit, std::mt19937_64& random) {
  return std::uniform_real_distribution<float>(-limit, limit)(random);
}

/// A matrix of random weights and what they are worth.
class Weights {
 public:
  Weights(WeightFormat format, int64_t columns, int64_t depth, std::mt19937_64& random)
      : matrix_{.format = format, .rows = {}, .columns = columns} {
    matrix_.rows.depth = depth;
    if (format <= WeightFormat::Q6_K) {
      fill_blocks(static_cast<BlockFormat>(format), random);
    } else if (side_arrays(format) == 2) {
      constexpr int kBits[] = {4, 8, 2, 3, 5, 6};
      const int kind = static_cast<int>(format) - static_cast<int>(WeightFormat::Affine4_F32);
      fill_affine(kBits[kind / 3], kind % 3, random);
    } else {
      fill_small_floats(random);
    }
  }

  const WeightMatrix& matrix() const { return matrix_; }
  double at(int64_t n, int64_t k) const {
    return values_[static_cast<size_t>(n * matrix_.rows.depth + k)];
  }

 private:
  using Array = Guarded<uint8_t>;

  Array& make(int64_t bytes, std::mt19937_64& random) {
    arrays_.push_back(std::make_unique<Array>(static_cast<size_t>(bytes), random));
    for (uint8_t& byte : *arrays_.back()) byte = static_cast<uint8_t>(random());
    return *arrays_.back();
  }

  void fill_blocks(BlockFormat format, std::mt19937_64& random) {
    const auto [weights, bytes] = block_size(format);
    WeightRows& rows = matrix_.rows;
    const int64_t blocks = matrix_.columns * rows.depth / weights;
    const Array& all = make(blocks * bytes, random);
    rows.row_bytes = rows.depth / weights * bytes;
    rows.codes = all.data();
    for (int64_t b = 0; b < blocks; ++b) set_scales(format, all.data() + b * bytes, random);
    std::vector<float> values(static_cast<size_t>(matrix_.columns * rows.depth));
    dequantize_blocks(format, all.data(), blocks, values.data());
    values_.assign(values.begin(), values.end());
  }

  /// Makes a block of random bytes one of moderate numbers.
  static void set_scales(BlockFormat format, uint8_t* block, std::mt19937_64& random) {
    const auto half = [&](int at, float limit) {
      const uint16_t bits = half_of_float(number_below(limit, random));
      std::memcpy(block + at, &bits, sizeof(bits));
    };
    const float number = number_below(1.0f, random);
    switch (format) {
      case BlockFormat::F32:
        std::memcpy(block, &number, sizeof(number));
        return;
      case BlockFormat::F16:
        return half(0, 1.0f);
      case BlockFormat::BF16: {
        const uint16_t bits = bfloat_of_float(number);
        std::memcpy(block, &bits, sizeof(bits));
        return;
      }
      case BlockFormat::Q6_K:
        return half(208, 1e-3f);
      case BlockFormat::Q4_0:
      case BlockFormat::Q5_0:
      case BlockFormat::Q8_0:
        return half(0, 0.01f);
      default:
        half(0, 0.01f);
        return half(2, 0.01f);
    }
  }

  /// Row n's code k, of those that follow one another bit by bit.
  int code_at(const Array& codes, int64_t n, int64_t k, int bits) const {
    int code = 0;
    for (int i = 0; i < bits; ++i) {
      const int64_t at = k * bits + i;
      const uint8_t byte = codes[static_cast<size_t>(n * matrix_.rows.row_bytes + at / 8)];
      code |= (byte >> at % 8 & 1) << i;
    }
    return code;
  }

  /// bits, and the type of scales and biases: float32, float16 or bfloat16.
  void fill_affine(int bits, int type, std::mt19937_64& random) {
    WeightRows& rows = matrix_.rows;
    do {
      rows.group_shift = static_cast<int>(draw(random, 0, 2));
    } while (rows.depth % (32 << rows.group_shift) != 0);
    const int64_t group = 32 << rows.group_shift;
    rows.scale_step = rows.depth / group;
    rows.row_bytes = rows.depth * bits / 8;
    const int64_t count = matrix_.columns * rows.scale_step;
    const int size = type == 0 ? 4 : 2;
    const Array& codes = make(matrix_.columns * rows.row_bytes, random);
    const Array& scales = make(count * size, random);
    const Array& biases = make(count * size, random);
    rows.codes = codes.data();
    rows.scales = scales.data();
    rows.biases = biases.data();
    const auto fill = [&](const Array& array, float limit) {
      std::vector<float> stored;
      for (int64_t i = 0; i < count; ++i) {
        const float number = number_below(limit, random);
        uint8_t* to = array.data() + i * size;
        const uint16_t half = half_of_float(number);
        const uint16_t bfloat = bfloat_of_float(number);
        if (type == 0) std::memcpy(to, &number, sizeof(number));
        if (type == 1) std::memcpy(to, &half, sizeof(half));
        if (type == 2) std::memcpy(to, &bfloat, sizeof(bfloat));
        stored.push_back(type == 0   ? number
                         : type == 1 ? float_of_half(half)
                                     : float_of_bfloat(bfloat));
      }
      return stored;
    };
    const std::vector<float> scale = fill(scales, 1.5f / static_cast<float>((1 << bits) - 1));
    const std::vector<float> bias = fill(biases, 0.5f);
    for (int64_t n = 0; n < matrix_.columns; ++n) {
      for (int64_t k = 0; k < rows.depth; ++k) {
        const auto i = static_cast<size_t>(n * rows.scale_step + k / group);
        values_.push_back(static_cast<double>(scale[i]) * code_at(codes, n, k, bits) + bias[i]);
      }
    }
  }

  /// A small float with that many bits of exponent, and NaN as any other number.
  static double small_float(int code, int exponent_bits, int fraction_bits) {
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const int fraction = code & ((1 << fraction_bits) - 1);
    const int exponent = code >> fraction_bits & ((1 << exponent_bits) - 1);
    const double magnitude = exponent == 0 ? std::ldexp(fraction, 1 - bias - fraction_bits)
                                           : std::ldexp(fraction + (1 << fraction_bits),
                                                        exponent - bias - fraction_bits);
    return code >> (exponent_bits + fraction_bits) == 1 ? -magnitude : magnitude;
  }

  void fill_small_floats(std::mt19937_64& random) {
    WeightRows& rows = matrix_.rows;
    const bool nvfp4 = matrix_.format == WeightFormat::Nvfp4;
    const int bits = matrix_.format == WeightFormat::Mxfp8 ? 8 : 4;
    const int64_t group = nvfp4 ? 16 : 32;
    rows.scale_step = rows.depth / group;
    rows.row_bytes = rows.depth * bits / 8;
    const Array& codes = make(matrix_.columns * rows.row_bytes, random);
    const Array& scales = make(matrix_.columns * rows.scale_step, random);
    rows.codes = codes.data();
    rows.scales = scales.data();
    for (uint8_t& byte : codes) {
      if (bits == 8 && (byte & 0x7f) == 0x7f) byte ^= 1;  // no NaN
    }
    for (uint8_t& byte : scales) {
      byte = static_cast<uint8_t>(nvfp4 ? (byte & 0x80) | draw(random, 0, 0x30)
                                        : draw(random, 110, 124));
    }
    for (int64_t n = 0; n < matrix_.columns; ++n) {
      for (int64_t k = 0; k < rows.depth; ++k) {
        const uint8_t scale = scales[static_cast<size_t>(n * rows.scale_step + k / group)];
        const double factor = nvfp4 ? small_float(scale, 4, 3) : std::ldexp(1.0, scale - 127);
        const int code = code_at(codes, n, k, bits);
        const double value = bits == 8 ? small_float(code, 4, 3) : small_float(code, 2, 1);
        values_.push_back(factor * value);
      }
    }
  }

  WeightMatrix matrix_;
  std::vector<std::unique_ptr<Array>> arrays_;
  std::vector<double> values_;
};

/// A multiple of the format's block, odd multiples among them; of 128 for half of the affine ones.
int64_t draw_depth(WeightFormat format, std::mt19937_64& random) {
  const int block = block_weights(format);
  if (block == 1) return draw_size(random, 70, 600);
  if (block == 256) return 256 * draw(random, 1, 5);
  return format > WeightFormat::Q6_K && draw(random, 0, 1) == 0 ? 128 * draw(random, 1, 9)
                                                                : 32 * draw_size(random, 9, 40);
}

/// What kFast makes of one row of x, by its definition.
std::vector<double> rounded_row(const float* x, int64_t depth) {
  std::vector<double> row;
  for (int64_t k = 0; k < depth; k += 32) {
    float largest = 0;
    for (int64_t i = 0; i < 32; ++i) largest = std::max(largest, std::abs(x[k + i]));
    for (int64_t i = 0; i < 32; ++i) {
      const float code = largest > 0 ? std::nearbyint(x[k + i] * (127.0f / largest)) : 0.0f;
      row.push_back(static_cast<double>(code) * (largest / 127.0f));
    }
  }
  return row;
}

struct Product {
  double value = 0;
  double magnitude = 0;  // sum of magnitudes
};

Product product(const double* x, const Weights& w, int64_t n) {
  Product sum;
  for (int64_t k = 0; k < w.matrix().rows.depth; ++k) {
    sum.value += x[k] * w.at(n, k);
    sum.magnitude += std::abs(x[k] * w.at(n, k));
  }
  return sum;
}

void expect_within(double actual, double expected, double bound, const char* what) {
  if (std::abs(actual - expected) <= bound) return;
  std::ostringstream message;
  message << what << " is " << actual << ", not within " << bound << " of " << expected;
  throw Failure(message.str());
}

/// The largest scale · code and offset that cancel in a weight, per unit of x: what rounding is
/// relative to when sums of codes and of offsets are kept apart.
double part_sizes(const double* x, const Weights& w, int64_t n) {
  double sum = 0;
  for (int64_t k = 0; k < w.matrix().rows.depth; k += 32) {
    double most = 0;
    double magnitude = 0;
    const int64_t end = std::min(k + 32, w.matrix().rows.depth);
    for (int64_t i = k; i < end; ++i) {
      most = std::max(most, std::abs(w.at(n, i)));
      magnitude += std::abs(x[i]);
    }
    sum += 3 * most * magnitude;
  }
  return sum;
}

void check_product(WeightFormat format, Precision precision, int64_t rows, int64_t depth,
                   std::mt19937_64& random) {
  const int64_t columns = draw_size(random, 40, rows > 100 ? 90 : 200);
  const Weights w(format, columns, depth, random);
  const Guarded<float> x(static_cast<size_t>(rows * depth), random);
  const Guarded<float> out(static_cast<size_t>(rows * columns), random);
  fill_numbers(x, random);
  if (draw(random, 0, 3) == 0) std::fill_n(x.data(), std::min<int64_t>(depth, 32), 0.0f);
  const bool biased = draw(random, 0, 1) == 1;
  const Guarded<float> bias(static_cast<size_t>(columns), random);
  fill_numbers(bias, random);
  quantized_matmul(x.data(), rows, w.matrix(), biased ? bias.data() : nullptr, precision,
                   out.data());

  const bool rounds = precision == Precision::kFast &&
                      kernels().formats[static_cast<int>(format)].dot_fast != nullptr;
  const int64_t samples = std::min<int64_t>(rows * columns, 300);
  for (int64_t i = 0; i <= samples; ++i) {
    const int64_t element = i == 0         ? 0
                            : i == samples ? rows * columns - 1
                                           : draw(random, 0, rows * columns - 1);
    const float* row = x.data() + element / columns * depth;
    const int64_t n = element % columns;
    const double actual = out[static_cast<size_t>(element)] -
                          (biased ? static_cast<double>(bias[static_cast<size_t>(n)]) : 0.0);
    const std::vector<double> given(row, row + depth);
    const Product exact = product(given.data(), w, n);
    if (!rounds) {
      expect_within(actual, exact.value, rounding(depth) * (1 + exact.magnitude), "the product");
      continue;
    }
    const std::vector<double> rounded = rounded_row(row, depth);
    const double float_error = rounding(depth) * (1 + part_sizes(given.data(), w, n));
    expect_within(actual, product(rounded.data(), w, n).value, float_error,
                  "the product of rounded x");
    // The stated bound: half a step of x's rounding, largest / 127, for every weight.
    double bound = float_error;
    for (int64_t k = 0; k < depth; k += 32) {
      double largest = 0;
      double weights = 0;
      for (int64_t j = k; j < k + 32; ++j) {
        largest = std::max(largest, std::abs(given[static_cast<size_t>(j)]));
        weights += std::abs(w.at(n, j));
      }
      bound += largest / 127 / 2 * weights * (1 + 1e-5);
    }
    expect_within(actual, exact.value, bound, "the product");
  }
}

void check_case(WeightFormat format, Precision precision, int64_t rows, std::mt19937_64& random) {
  check_product(format, precision, rows, draw_depth(format, random), random);
}

/// Products with all weights at once, against those one by one: the same to the bit.
void check_together(const std::vector<Weights>& weights, int64_t rows, Precision precision,
                    std::mt19937_64& random) {
  const int64_t depth = weights[0].matrix().rows.depth;
  const Guarded<float> x(static_cast<size_t>(rows * depth), random);
  fill_numbers(x, random);
  const bool biased = draw(random, 0, 1) == 1;
  std::vector<std::unique_ptr<Guarded<float>>> biases;
  std::vector<std::unique_ptr<Guarded<float>>> outs;
  std::vector<QuantizedProduct> products;
  for (const Weights& w : weights) {
    const int64_t columns = w.matrix().columns;
    biases.push_back(std::make_unique<Guarded<float>>(static_cast<size_t>(columns), random));
    outs.push_back(std::make_unique<Guarded<float>>(static_cast<size_t>(rows * columns), random));
    fill_numbers(*biases.back(), random);
    products.push_back({.w = w.matrix(),
                        .bias = biased ? biases.back()->data() : nullptr,
                        .out = outs.back()->data()});
  }
  quantized_matmul(x.data(), rows, products, precision);
  for (const auto& [w, bias, out] : products) {
    const auto size = static_cast<size_t>(rows * w.columns);
    std::vector<float> alone(size);
    quantized_matmul(x.data(), rows, w, bias, precision, alone.data());
    EXPECT(std::memcmp(alone.data(), out, size * sizeof(float)) == 0);
  }
}

void check_formats(Precision precision) {
  require_level();
  for (int f = 0; f < kWeightFormats; ++f) {
    random_cases(16, [&](std::mt19937_64& random) {
      use_kernels(random);
      const int64_t rows = draw(random, 0, 2) == 0 ? 1 : draw(random, 2, 40);
      check_case(static_cast<WeightFormat>(f), precision, rows, random);
    });
  }
}

}  // namespace

TEST("exact products, every format") { check_formats(Precision::kExact); }

TEST("fast products, every format") { check_formats(Precision::kFast); }

// Kernels take several blocks of a row at a time, and what remains apart.
TEST("products of one row of every small number of blocks") {
  require_level();
  for (int f = 0; f < kWeightFormats; ++f) {
    random_cases(2, [&](std::mt19937_64& random) {
      use_kernels(random);
      const auto format = static_cast<WeightFormat>(f);
      for (int64_t blocks = 1; blocks < 10; ++blocks) {
        const int64_t depth = blocks * block_weights(format);
        check_product(format, Precision::kExact, 1, depth, random);
        check_product(format, Precision::kFast, 1, depth, random);
      }
    });
  }
}

TEST("products of 512 rows") {
  require_level();
  for (int f = 0; f < kWeightFormats; ++f) {
    random_cases(1, [&](std::mt19937_64& random) {
      use_kernels(random);
      check_case(static_cast<WeightFormat>(f), Precision::kExact, 512, random);
      check_case(static_cast<WeightFormat>(f), Precision::kFast, 512, random);
    });
  }
}

TEST("several products of one x are each what they are alone") {
  require_level();
  for (int f = 0; f < kWeightFormats; ++f) {
    random_cases(6, [&](std::mt19937_64& random) {
      use_kernels(random);
      const auto format = static_cast<WeightFormat>(f);
      const int64_t depth = draw_depth(format, random);
      std::vector<Weights> weights;
      for (int64_t i = draw(random, 1, 4); i > 0; --i) {
        weights.emplace_back(format, draw_size(random, 40, 200), depth, random);
      }
      for (const int64_t rows : {1, 3, 40}) {
        check_together(weights, rows, Precision::kExact, random);
        check_together(weights, rows, Precision::kFast, random);
      }
    });
  }
}

TEST("fast products of what isn't finite, or hardly a number") {
  require_level();
  random_cases(20, [](std::mt19937_64& random) {
    use_kernels(random);
    const Weights w(WeightFormat::Q8_0, 9, 96, random);
    for (const int64_t rows : {1, 7}) {
      const Guarded<float> x(static_cast<size_t>(rows * 96), random);
      const Guarded<float> out(static_cast<size_t>(rows * 9), random);
      for (const float value : {NAN, INFINITY, -INFINITY, 1e-42f}) {
        std::fill(x.begin(), x.end(), 0.0f);
        x[static_cast<size_t>(draw(random, 0, 95))] = value;
        quantized_matmul(x.data(), rows, w.matrix(), nullptr, Precision::kFast, out.data());
        for (int64_t i = 0; i < rows * 9; ++i) {
          const float y = out[static_cast<size_t>(i)];
          EXPECT_EQUAL(i < 9 && value != 1e-42f, !std::isfinite(y));
          EXPECT(!std::isfinite(y) || std::abs(y) < 1e-30f);
        }
      }
    }
  });
}

TEST("rows taken from a table") {
  require_level();
  for (int f = 0; f < kWeightFormats; ++f) {
    random_cases(4, [&](std::mt19937_64& random) {
      use_kernels(random);
      const auto format = static_cast<WeightFormat>(f);
      const int64_t depth = draw_depth(format, random);
      const int64_t columns = draw(random, 1, 30);
      const Weights w(format, columns, depth, random);
      const int64_t count = draw(random, 1, 20);
      const Guarded<int64_t> ids(static_cast<size_t>(count), random);
      for (int64_t& id : ids) id = draw(random, -columns - 1, columns);
      const Guarded<float> out(static_cast<size_t>(count * depth), random);
      quantized_take(w.matrix(), ids.data(), count, out.data());
      for (int64_t i = 0; i < count * depth; ++i) {
        const int64_t id = ids[static_cast<size_t>(i / depth)];
        const double actual = out[static_cast<size_t>(i)];
        if (id < -columns || id >= columns) {
          EXPECT(std::isnan(actual));
        } else {
          const double expected = w.at(id < 0 ? id + columns : id, i % depth);
          expect_within(actual, expected, 1e-6 * (std::abs(expected) + 0.2), "a weight");
        }
      }
    });
  }
}
