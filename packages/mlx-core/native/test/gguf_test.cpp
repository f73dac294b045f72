// The GGUF parser on damaged files between forbidden pages: whatever they hold, it reads within
// them and ends with a result or with one kind of exception.
#include "io/gguf.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "core/errors.h"
#include "guarded.h"
#include "harness.h"

using namespace mlx_runners;
using namespace mlx_runners::testing;

namespace {

class Writer {
 public:
  template <class T>
  Writer& put(T value) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(&value);
    file.insert(file.end(), bytes, bytes + sizeof(T));
    return *this;
  }
  Writer& text(const std::string& text) {
    put<uint64_t>(text.size());
    file.insert(file.end(), text.begin(), text.end());
    return *this;
  }
  std::vector<uint8_t> file;
};

constexpr auto type_of = [](GgufType type) { return static_cast<uint32_t>(type); };

// Two tensors, a text, a number, lists of numbers, of texts and of lists.
std::vector<uint8_t> small_file() {
  Writer writer;
  writer.file = {'G', 'G', 'U', 'F'};
  writer.put<uint32_t>(3).put<uint64_t>(2).put<uint64_t>(5);
  writer.text("name").put(type_of(GgufType::String)).text("tiny");
  writer.text("general.alignment").put(type_of(GgufType::UInt32)).put<uint32_t>(16);
  writer.text("sizes").put(type_of(GgufType::Array)).put(type_of(GgufType::Int32));
  writer.put<uint64_t>(3).put<int32_t>(1).put<int32_t>(-2).put<int32_t>(3);
  writer.text("tokens").put(type_of(GgufType::Array)).put(type_of(GgufType::String));
  writer.put<uint64_t>(2).text("a").text("");
  writer.text("lists").put(type_of(GgufType::Array)).put(type_of(GgufType::Array));
  writer.put<uint64_t>(1).put(type_of(GgufType::Bool)).put<uint64_t>(1).put<uint8_t>(1);
  writer.text("norm").put<uint32_t>(1).put<uint64_t>(4).put<uint32_t>(0).put<uint64_t>(0);
  writer.text("blocks").put<uint32_t>(2).put<uint64_t>(32).put<uint64_t>(3).put<uint32_t>(2);
  writer.put<uint64_t>(16);
  writer.file.resize((writer.file.size() + 15) / 16 * 16 + 16 + 3 * 18);
  return writer.file;
}

// Reads all it is told, as a real one does, and counts it.
class Reader final : public GgufMetadata {
 public:
  void key(std::string_view name) override { touch(name.data(), name.size()); }
  void number(GgufType type, const uint8_t* bytes) override {
    touch(bytes, static_cast<size_t>(size_of(type)));
  }
  void text(std::string_view text) override { touch(text.data(), text.size()); }
  void numbers(GgufType type, size_t count, const uint8_t* bytes) override {
    touch(bytes, count * static_cast<size_t>(size_of(type)));
  }
  void begin_list(size_t) override { ++depth; }
  void end_list() override { --depth; }

  int depth = 0;
  size_t told = 0;

 private:
  void touch(const void* bytes, size_t count) {
    std::vector<uint8_t> copy(count);
    if (count > 0) std::memcpy(copy.data(), bytes, count);
    told += count;
  }
};

// What is true of every file that is accepted.
void check_tensors(const std::vector<GgufTensor>& tensors, size_t file_size) {
  for (const GgufTensor& tensor : tensors) {
    EXPECT(!tensor.name.empty());
    EXPECT(tensor.shape.size() <= 4);
    for (const int size : tensor.shape) EXPECT(size >= 0);
    EXPECT(tensor.start <= file_size && tensor.bytes <= file_size - tensor.start);
  }
}

}  // namespace

TEST("a small file") {
  std::mt19937_64 random(1);
  const auto file = small_file();
  const Guarded<uint8_t> bytes(file.size(), random);
  std::copy(file.begin(), file.end(), bytes.begin());
  Reader reader;
  const auto tensors = read_gguf({bytes.data(), bytes.size()}, reader);
  EXPECT_EQUAL(reader.depth, 0);
  EXPECT_EQUAL(tensors.size(), size_t{2});
  EXPECT(tensors[1].shape == std::vector<int>({3, 32}));
  EXPECT_EQUAL(tensors[1].bytes, size_t{54});
  EXPECT_EQUAL(tensors[1].start + tensors[1].bytes, file.size());
}

TEST("damaged files") {
  const auto whole = small_file();
  int read = 0, refused = 0;
  random_cases(3000, [&](std::mt19937_64& random) {
    auto file = whole;
    for (int64_t i = draw(random, 0, 3); i >= 0; --i) {
      const auto at = static_cast<size_t>(draw(random, 0, std::ssize(file) - 1));
      switch (draw(random, 0, 3)) {
        case 0:
          file[at] = static_cast<uint8_t>(draw(random, 0, 255));
          break;
        case 1:
          file.resize(at + 1);
          break;
        case 2:
          file[at] ^= static_cast<uint8_t>(1 << draw(random, 0, 7));
          break;
        default: {
          const uint64_t sizes[] = {0, 1, 0x7fffffff, 0x80000000, ~0ull, 1ull << 63, ~0ull >> 1};
          const uint64_t size = sizes[draw(random, 0, 6)];
          std::memcpy(file.data() + at, &size, std::min(sizeof(size), file.size() - at));
        }
      }
    }
    const Guarded<uint8_t> bytes(file.size(), random);
    std::copy(file.begin(), file.end(), bytes.begin());
    Reader reader;
    try {
      check_tensors(read_gguf({bytes.data(), bytes.size()}, reader), file.size());
      ++read;
    } catch (const CodedError& error) {
      EXPECT_EQUAL(std::string(error.code()), std::string("CHECKPOINT"));
      const std::string message = error.what();
      EXPECT(message.size() < 900);
      EXPECT(std::none_of(message.begin(), message.end(),
                          [](unsigned char c) { return c < 0x20 || c == 0x7f; }));
      ++refused;
    }
    EXPECT(reader.told <= file.size());
  });
  EXPECT(read + refused < 100 || (read > 0 && refused > 0));
}
