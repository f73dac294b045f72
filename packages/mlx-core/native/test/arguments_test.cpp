// What JavaScript and exported programs hand to native code: the values of a call, and the shapes
// and places of tensors in bytes. Whatever they hold, the outcome is a result or an exception.
#include <unistd.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <vector>

#include "core/checked_shape.h"
#include "core/dtypes.h"
#include "core/errors.h"
#include "evaluations.h"
#include "harness.h"
#include "io/mapping.h"
#include "mlx/transforms.h"
#include "ops/op.h"

using namespace mlx_runners;
using namespace mlx_runners::testing;

namespace {

/// A few arrays of all kinds under the ids 0, 1, 2 …
class SomeArrays final : public ArraySource {
 public:
  SomeArrays() {
    for (const mx::Shape& shape : {mx::Shape{2, 3}, {3, 2}, {4}, {}, {0, 3}, {2, 1, 3, 4}, {1}}) {
      for (const mx::Dtype dtype : {mx::float32, mx::int32, mx::bool_, mx::bfloat16, mx::uint8}) {
        arrays_.push_back(mx::ones(shape, dtype));
      }
    }
  }
  const mx::array& at(double id) const override {
    if (!(id >= 0 && id < static_cast<double>(arrays_.size()))) {
      throw CodedError("DISPOSED", "no such array");
    }
    return arrays_[static_cast<size_t>(id)];
  }

 private:
  std::vector<mx::array> arrays_;
};

double any_number(std::mt19937_64& random) {
  static constexpr double odd[] = {-1,
                                   0.5,
                                   -2147483649.0,
                                   2147483648.0,
                                   4294967296.0,
                                   9007199254740993.0,
                                   1e300,
                                   -1e300,
                                   std::numeric_limits<double>::infinity(),
                                   std::numeric_limits<double>::quiet_NaN()};
  return draw(random, 0, 3) > 0 ? static_cast<double>(draw(random, -3, 40))
                                : odd[draw(random, 0, std::size(odd) - 1)];
}

Value any_value(std::mt19937_64& random, uint32_t list_size) {
  Value value;
  value.tag = static_cast<Tag>(draw(random, 0, 9));  // 9 is none of them
  value.number = any_number(random);
  value.size = static_cast<uint32_t>(draw(random, 0, 3) > 0 ? draw(random, 0, 4)
                                     : draw(random, 0, 1)   ? draw(random, 0, list_size + 2)
                                                            : UINT32_MAX);
  return value;
}

std::string code_of_failure(const std::function<void()>& body) {
  try {
    body();
  } catch (const std::exception& error) {
    return code_of(error);
  }
  return "none";
}

}  // namespace

TEST("ops called with any values") {
  Builder builder;
  LaneLock lock(builder.lane, builder.stream);
  const SomeArrays arrays;
  int64_t called = 0;
  random_cases(20000, [&](std::mt19937_64& random) {
    const auto& table = op_table();
    const Op& op = table[static_cast<size_t>(draw(random, 0, std::ssize(table) - 1))];
    // Memory of exactly the size that the reader is told, for the sanitizer to guard.
    std::vector<double> lists(static_cast<size_t>(draw(random, 0, 12)));
    for (double& number : lists) number = any_number(random);
    const auto list_size = static_cast<uint32_t>(lists.size());
    const auto most = std::ssize(op.params) + 1;
    std::vector<Value> values(static_cast<size_t>(draw(random, 0, most)));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = any_value(random, list_size);
      // Mostly what the parameter wants, else hardly a call would come through.
      if (i >= op.params.size() || draw(random, 0, 4) == 0) continue;
      const Kind kind = op.params[i].kind;
      if (kind == Kind::Array) values[i] = {Tag::Array, 0, double(draw(random, 0, 34))};
      if (kind == Kind::Arrays) values[i].tag = Tag::Arrays;
      if (kind == Kind::Ints) values[i].tag = Tag::Ints;
      if (kind == Kind::Dtype) values[i] = {Tag::Dtype, 0, double(draw(random, 0, 13))};
    }
    std::vector<mx::array> results;
    try {
      op.call({values.data(), static_cast<uint32_t>(values.size()), lists.data(), list_size},
              arrays, builder.stream, results);
      ++called;
    } catch (const std::exception&) {
    }
  });
  EXPECT(called > 0);
}

TEST("a list that lies outside of the list area") {
  Builder builder;
  LaneLock lock(builder.lane, builder.stream);
  const SomeArrays arrays;
  const auto reshape = std::find_if(op_table().begin(), op_table().end(),
                                    [](const Op& op) { return std::string(op.name) == "reshape"; });
  const std::vector<double> lists{3, 2};
  const auto call = [&](double start, uint32_t size) {
    return code_of_failure([&] {
      const Value values[] = {{Tag::Array, 0, 0}, {Tag::Ints, size, start}};
      std::vector<mx::array> results;
      reshape->call({values, 2, lists.data(), 2}, arrays, builder.stream, results);
    });
  };
  EXPECT_EQUAL(call(0, 2), std::string("none"));
  for (const double start : {-1.0, 1.0, 2.0, 1e300, std::nan("")}) {
    EXPECT_EQUAL(call(start, 2), std::string("PROGRAM"));
  }
  EXPECT_EQUAL(call(0, UINT32_MAX), std::string("PROGRAM"));
}

TEST("shapes are held against the bytes that there are") {
  random_cases(20000, [](std::mt19937_64& random) {
    std::vector<double> sizes(static_cast<size_t>(draw(random, 0, 6)));
    for (double& size : sizes) size = any_number(random);
    const mx::Dtype dtype = dtypes[static_cast<size_t>(draw(random, 0, 13))].dtype;
    const auto bytes = static_cast<size_t>(draw(random, 0, 100000));
    const bool exactly = draw(random, 0, 1) == 1;
    try {
      const mx::Shape shape = checked_shape(sizes, dtype, bytes, exactly);
      size_t needed = dtype.size();
      for (const int size : shape) needed *= static_cast<size_t>(size);
      EXPECT(exactly ? needed == bytes : needed <= bytes);
    } catch (const CodedError& error) {
      EXPECT_EQUAL(std::string(error.code()), std::string("SHAPE"));
    }
  });
}

TEST("arrays of mapped files, up to the last byte") {
  Builder builder;
  const std::string path = std::filesystem::temp_directory_path() /
                           ("mlx-runners-arguments-" + std::to_string(getpid()));
  random_cases(200, [&](std::mt19937_64& random) {
    std::vector<uint8_t> content(static_cast<size_t>(draw(random, 0, 9000)));
    for (uint8_t& byte : content) byte = static_cast<uint8_t>(draw(random, 0, 255));
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(content.data()), std::ssize(content));
    const auto file = Mapping::open(path);
    std::filesystem::remove(path);
    EXPECT_EQUAL(file->size(), content.size());
    const auto offset = static_cast<size_t>(draw(random, 0, std::ssize(content)));
    const auto rest = static_cast<int64_t>(content.size() - offset);
    const auto count = static_cast<int>(draw(random, 0, 1) ? rest : draw(random, 0, rest));
    LaneLock lock(builder.lane, builder.stream);
    const mx::array bytes = Mapping::array(file, offset, {count}, mx::uint8);
    mx::array copy = mx::add(bytes, mx::array(uint8_t{1}), builder.stream);
    mx::eval({copy});
    for (int i = 0; i < count; ++i) {
      EXPECT_EQUAL(int{copy.data<uint8_t>()[i]},
                   (content[offset + static_cast<size_t>(i)] + 1) % 256);
    }
  });
}
