#include "io/gguf.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <string>

#include "core/errors.h"

namespace mlx_runners {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr uint32_t default_alignment = 32;
constexpr size_t longest_name = 65535;
constexpr uint32_t most_axes = 4;  // as ggml's tensors
constexpr int deepest_list = 8;    // files in use have no lists of lists at all

[[noreturn]] void fail(const std::string& message) { throw CodedError("CHECKPOINT", message); }

// A text of the file for a message: its beginning, whole characters, escaped.
std::string quoted(std::string_view text) {
  constexpr size_t longest = 60;
  constexpr char digits[] = "0123456789abcdef";
  size_t length = std::min(text.size(), longest);
  while (length < text.size() && length > 0 && (text[length] & 0xc0) == 0x80) --length;
  std::string result = "\"";
  for (const char c : text.substr(0, length)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7f) {
      result += c;
    } else {
      result += {'\\', 'u', '0', '0', digits[byte >> 4], digits[byte & 15]};
    }
  }
  return result + (length < text.size() ? "…\"" : "\"");
}

// Reads from front to back, never past the end.
class Cursor {
 public:
  explicit Cursor(std::span<const uint8_t> file) : file_(file) {}

  size_t position() const { return position_; }
  size_t left() const { return file_.size() - position_; }
  /// What is being read, for messages; `name` may come out of the file.
  void reads(const char* what, std::string_view name = {}) {
    what_ = what;
    name_ = name;
  }
  std::string context() const { return name_.empty() ? what_ : what_ + (' ' + quoted(name_)); }

  const uint8_t* take(uint64_t bytes) {
    if (bytes > left()) {
      fail(context() + " is cut off: it needs " + std::to_string(bytes) + " bytes from byte " +
           std::to_string(position_) + " on, and the file has " + std::to_string(file_.size()));
    }
    const uint8_t* start = file_.data() + position_;
    position_ += bytes;
    return start;
  }
  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof(T)), sizeof(T));
    return value;
  }
  std::string_view text() {
    const auto length = number<uint64_t>();
    return {reinterpret_cast<const char*>(take(length)), static_cast<size_t>(length)};
  }
  std::string_view name() {
    const std::string_view name = text();
    if (name.empty()) fail(context() + " has no name");
    if (name.size() > longest_name) {
      fail(context() + " has a name of " + std::to_string(name.size()) + " bytes; at most " +
           std::to_string(longest_name) + " are allowed");
    }
    return name;
  }
  /// How many of what takes at least `bytes` each: a number that the rest of the file has room for.
  size_t count(const char* things, size_t bytes) {
    const auto count = number<uint64_t>();
    if (count > left() / bytes) {
      fail(context() + " has " + std::to_string(count) + ' ' + things +
           ", for which the file is too short (" + std::to_string(file_.size()) + " bytes)");
    }
    return static_cast<size_t>(count);
  }

 private:
  std::span<const uint8_t> file_;
  size_t position_ = 0;
  std::string what_;
  std::string_view name_;
};

void check_version(Cursor& cursor) {
  cursor.reads("its beginning");
  const auto* magic = reinterpret_cast<const char*>(cursor.take(4));
  const std::string_view found(magic, 4);
  // Written as numbers, so reversed: ggml, ggmf, ggjt, ggla.
  for (const char* old : {"lmgg", "fmgg", "tjgg", "algg"}) {
    if (found == old) fail("this is a file of ggml from before GGUF: convert the model anew");
  }
  if (found != "GGUF") fail("this is no GGUF file: it starts with " + quoted(found));
  const auto version = cursor.number<uint32_t>();
  if (version != 0 && (version & 0xffff) == 0) {
    fail("this GGUF file is big-endian; only little-endian ones are read");
  }
  if (version != 2 && version != 3) {
    fail("this GGUF file is of version " + std::to_string(version) + "; 2 and 3 are read" +
         (version == 1 ? ": convert the model anew" : ""));
  }
}

GgufType type_at(Cursor& cursor) {
  const auto number = cursor.number<uint32_t>();
  if (number > static_cast<uint32_t>(GgufType::Float64)) {
    fail(cursor.context() + " is of type " + std::to_string(number) + "; there are 0 to 12");
  }
  return static_cast<GgufType>(number);
}

void check_bools(Cursor& cursor, const uint8_t* bytes, size_t count) {
  const uint8_t* wrong = std::find_if(bytes, bytes + count, [](uint8_t byte) { return byte > 1; });
  if (wrong != bytes + count) {
    fail(cursor.context() + " should be true or false (1 or 0), and is " + std::to_string(*wrong));
  }
}

void read_list(Cursor& cursor, GgufMetadata& metadata, int depth) {
  const GgufType type = type_at(cursor);
  if (type == GgufType::String) {
    const size_t count = cursor.count("texts", sizeof(uint64_t));
    metadata.begin_list(count);
    for (size_t i = 0; i < count; ++i) metadata.text(cursor.text());
    metadata.end_list();
  } else if (type == GgufType::Array) {
    if (depth == deepest_list) {
      fail(cursor.context() + " has lists in lists, " + std::to_string(depth) + " deep and deeper");
    }
    const size_t count = cursor.count("lists", sizeof(uint32_t) + sizeof(uint64_t));
    metadata.begin_list(count);
    for (size_t i = 0; i < count; ++i) read_list(cursor, metadata, depth + 1);
    metadata.end_list();
  } else {
    const size_t size = static_cast<size_t>(size_of(type));
    const size_t count = cursor.count("numbers", size);
    const uint8_t* bytes = cursor.take(count * size);
    if (type == GgufType::Bool) check_bools(cursor, bytes, count);
    metadata.numbers(type, count, bytes);
  }
}

void read_value(Cursor& cursor, GgufType type, GgufMetadata& metadata) {
  if (type == GgufType::String) {
    metadata.text(cursor.text());
  } else if (type == GgufType::Array) {
    read_list(cursor, metadata, 1);
  } else {
    const uint8_t* bytes = cursor.take(static_cast<uint64_t>(size_of(type)));
    if (type == GgufType::Bool) check_bools(cursor, bytes, 1);
    metadata.number(type, bytes);
  }
}

// Returns the alignment of the tensors' data, which is among them.
uint32_t read_metadata(Cursor& cursor, size_t count, GgufMetadata& metadata) {
  uint32_t alignment = default_alignment;
  for (size_t i = 0; i < count; ++i) {
    cursor.reads("a key of the metadata");
    const std::string_view key = cursor.name();
    cursor.reads("metadata", key);
    metadata.key(key);
    const GgufType type = type_at(cursor);
    if (key == "general.alignment") {
      if (type != GgufType::UInt32) fail(cursor.context() + " has to be of type 4, uint32");
      alignment = Cursor(cursor).number<uint32_t>();  // a copy: it is metadata as others, too
      if (!std::has_single_bit(alignment)) {
        fail(cursor.context() + " is " + std::to_string(alignment) + ", not a power of two");
      }
    }
    read_value(cursor, type, metadata);
  }
  return alignment;
}

// Fills in shape and bytes; `axes` are in the order of the file, the fastest first.
void measure(const Cursor& cursor, GgufTensor& tensor, std::span<const uint64_t> axes) {
  constexpr auto largest = static_cast<uint64_t>(std::numeric_limits<int>::max());
  for (const uint64_t size : axes) {
    if (size > largest) {
      fail(cursor.context() + " has a size of " + std::to_string(size) + "; the largest is " +
           std::to_string(largest));
    }
    tensor.shape.insert(tensor.shape.begin(), static_cast<int>(size));
  }
  tensor.bytes = 0;
  if (!tensor.type) return;
  const auto weights = static_cast<uint64_t>(tensor.type->weights);
  const uint64_t row = axes.empty() ? 1 : axes[0];
  if (row % weights != 0) {
    fail(cursor.context() + " has rows of " + std::to_string(row) + " weights; rows of " +
         std::string(tensor.type->name) + " have a multiple of " + std::to_string(weights));
  }
  // Rows in blocks become rows of bytes.
  uint64_t bytes = row / weights * static_cast<uint64_t>(tensor.type->bytes);
  bool too_large = tensor.type->kind == GgmlType::Kind::Blocks && bytes > largest;
  if (std::ranges::find(axes, 0u) != axes.end()) bytes = 0;
  for (size_t i = 1; i < axes.size(); ++i) {
    too_large = __builtin_mul_overflow(bytes, axes[i], &bytes) || too_large;
  }
  if (too_large) fail(cursor.context() + " would be larger than any file");
  tensor.bytes = bytes;
}

GgufTensor read_tensor(Cursor& cursor) {
  cursor.reads("a tensor");
  GgufTensor tensor{};
  tensor.name = cursor.name();
  cursor.reads("tensor", tensor.name);
  const auto axis_count = cursor.number<uint32_t>();
  if (axis_count > most_axes) {
    fail(cursor.context() + " has " + std::to_string(axis_count) + " axes; at most " +
         std::to_string(most_axes) + " are allowed");
  }
  uint64_t axes[most_axes];
  for (uint32_t i = 0; i < axis_count; ++i) axes[i] = cursor.number<uint64_t>();
  tensor.type_number = cursor.number<uint32_t>();
  tensor.type = ggml_type(tensor.type_number);
  tensor.start = cursor.number<uint64_t>();
  measure(cursor, tensor, {axes, axis_count});
  return tensor;
}

// Makes `start` a byte of the file, from one of the data.
void place(GgufTensor& tensor, size_t data, uint32_t alignment, size_t file_size) {
  const std::string name = "tensor " + quoted(tensor.name);
  if (tensor.start % alignment != 0) {
    fail(name + " starts at byte " + std::to_string(tensor.start) +
         " of the data, which isn't a multiple of " + std::to_string(alignment));
  }
  if (tensor.bytes == 0 && tensor.type) {
    tensor.start = 0;
    return;
  }
  const size_t available = file_size > data ? file_size - data : 0;
  if (tensor.start > available || tensor.bytes > available - tensor.start) {
    fail(name + " has " + std::to_string(tensor.bytes) + " bytes from byte " +
         std::to_string(tensor.start) + " of the data on, but there are " +
         std::to_string(available) + ": is the file cut off?");
  }
  tensor.start += data;
}

void check_overlaps(std::vector<GgufTensor>& tensors) {
  std::vector<const GgufTensor*> order;
  for (const GgufTensor& tensor : tensors) order.push_back(&tensor);
  std::ranges::sort(order, {}, [](const GgufTensor* tensor) { return tensor->start; });
  const GgufTensor* before = nullptr;
  for (const GgufTensor* tensor : order) {
    if (tensor->bytes == 0) continue;
    if (before && tensor->start < before->start + before->bytes) {
      fail("tensors " + quoted(before->name) + " and " + quoted(tensor->name) + " overlap");
    }
    before = tensor;
  }
}

}  // namespace

int size_of(GgufType type) {
  switch (type) {
    case GgufType::UInt8:
    case GgufType::Int8:
    case GgufType::Bool:
      return 1;
    case GgufType::UInt16:
    case GgufType::Int16:
      return 2;
    case GgufType::UInt32:
    case GgufType::Int32:
    case GgufType::Float32:
      return 4;
    case GgufType::UInt64:
    case GgufType::Int64:
    case GgufType::Float64:
      return 8;
    case GgufType::String:
    case GgufType::Array:
      break;
  }
  return 0;
}

std::vector<GgufTensor> read_gguf(std::span<const uint8_t> file, GgufMetadata& metadata) {
  Cursor cursor(file);
  check_version(cursor);
  cursor.reads("the file");
  // Of a tensor: its name with its length, axes, type and start. Of metadata: key, type, a byte.
  const size_t tensor_count = cursor.count("tensors", 8 + 1 + 4 + 4 + 8);
  const size_t value_count = cursor.count("values", 8 + 1 + 4 + 1);
  const uint32_t alignment = read_metadata(cursor, value_count, metadata);
  std::vector<GgufTensor> tensors;
  for (size_t i = 0; i < tensor_count; ++i) tensors.push_back(read_tensor(cursor));
  const size_t data = (cursor.position() + alignment - 1) / alignment * alignment;
  for (GgufTensor& tensor : tensors) place(tensor, data, alignment, file.size());
  check_overlaps(tensors);
  return tensors;
}

}  // namespace mlx_runners
