// GGUF files for JavaScript: metadata as its values, and where tensors lie.
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "core/exports.h"
#include "core/guard.h"
#include "io/gguf.h"
#include "io/mapping.h"

namespace mlx_runners {
namespace {

template <class T>
T as(const uint8_t* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

// What JavaScript's numbers hold exactly is one, also of 64 bits.
template <class T>
Napi::Value whole_number(Napi::Env env, T value) {
  constexpr auto largest = T{1} << 53;
  const bool exact = std::is_signed_v<T> ? value > -largest && value < largest : value < largest;
  if (exact) return Napi::Number::New(env, static_cast<double>(value));
  return Napi::BigInt::New(env, value);
}

Napi::Value number_value(Napi::Env env, GgufType type, const uint8_t* bytes) {
  const auto number = [&](double value) { return Napi::Number::New(env, value); };
  switch (type) {
    case GgufType::UInt8:
      return number(as<uint8_t>(bytes));
    case GgufType::Int8:
      return number(as<int8_t>(bytes));
    case GgufType::UInt16:
      return number(as<uint16_t>(bytes));
    case GgufType::Int16:
      return number(as<int16_t>(bytes));
    case GgufType::UInt32:
      return number(as<uint32_t>(bytes));
    case GgufType::Int32:
      return number(as<int32_t>(bytes));
    case GgufType::Float32:
      return number(as<float>(bytes));
    case GgufType::Float64:
      return number(as<double>(bytes));
    case GgufType::UInt64:
      return whole_number(env, as<uint64_t>(bytes));
    case GgufType::Int64:
      return whole_number(env, as<int64_t>(bytes));
    case GgufType::Bool:
      return Napi::Boolean::New(env, *bytes != 0);
    case GgufType::String:
    case GgufType::Array:
      break;
  }
  throw CodedError("NATIVE", "this type is no number");
}

napi_typedarray_type element_type(GgufType type) {
  switch (type) {
    case GgufType::Int8:
      return napi_int8_array;
    case GgufType::UInt16:
      return napi_uint16_array;
    case GgufType::Int16:
      return napi_int16_array;
    case GgufType::UInt32:
      return napi_uint32_array;
    case GgufType::Int32:
      return napi_int32_array;
    case GgufType::Float32:
      return napi_float32_array;
    case GgufType::Float64:
      return napi_float64_array;
    case GgufType::UInt64:
      return napi_biguint64_array;
    case GgufType::Int64:
      return napi_bigint64_array;
    default:
      return napi_uint8_array;
  }
}

// Keys and values, in turn. By plain Node-API: vocabularies have hundreds of thousands of texts.
class Collected final : public GgufMetadata {
 public:
  explicit Collected(Napi::Env env) : env_(env) { begin_list(0); }

  napi_value all() const { return lists_.front().array; }

  void key(std::string_view name) override { text(name); }
  void number(GgufType type, const uint8_t* bytes) override {
    add(number_value(env_, type, bytes));
  }
  void text(std::string_view text) override {
    napi_value value;
    check(napi_create_string_utf8(env_, text.data(), text.size(), &value));
    add(value);
  }
  void numbers(GgufType type, size_t count, const uint8_t* bytes) override {
    if (type == GgufType::Bool) {
      begin_list(count);
      for (size_t i = 0; i < count; ++i) number(type, bytes + i);
      return end_list();
    }
    void* data = nullptr;
    napi_value buffer, array;
    const size_t size = count * static_cast<size_t>(size_of(type));
    check(napi_create_arraybuffer(env_, size, &data, &buffer));
    if (size > 0) std::memcpy(data, bytes, size);
    check(napi_create_typedarray(env_, element_type(type), count, buffer, 0, &array));
    add(array);
  }
  void begin_list(size_t count) override {
    napi_value array;
    check(napi_create_array_with_length(env_, count, &array));
    lists_.push_back({array, 0});
  }
  void end_list() override {
    const napi_value array = lists_.back().array;
    lists_.pop_back();
    add(array);
  }

 private:
  struct List {
    napi_value array;
    uint32_t length;
  };

  void add(napi_value value) {
    List& list = lists_.back();
    check(napi_set_element(env_, list.array, list.length++, value));
  }
  void check(napi_status status) {
    if (status == napi_ok) return;
    if (env_.IsExceptionPending())
      throw Napi::Error(env_, env_.GetAndClearPendingException().Value());
    throw CodedError("CHECKPOINT", "JavaScript can't hold a text or list of the metadata");
  }

  Napi::Env env_;
  std::vector<List> lists_;
};

// What src/native.ts calls GgufTensorEntry.
Napi::Object described(Napi::Env env, const GgufTensor& tensor) {
  auto shape = Napi::Array::New(env, tensor.shape.size());
  for (uint32_t i = 0; i < tensor.shape.size(); ++i) shape.Set(i, tensor.shape[i]);
  auto result = Napi::Object::New(env);
  result.Set("name", Napi::String::New(env, tensor.name.data(), tensor.name.size()));
  result.Set("shape", shape);
  const GgmlType* type = tensor.type;
  result.Set("format", type ? std::string(type->name) : std::to_string(tensor.type_number));
  if (!type || type->kind == GgmlType::Kind::Other) return result;
  result.Set("start", static_cast<double>(tensor.start));
  result.Set("dtype", std::string(type->dtype));
  if (type->kind == GgmlType::Kind::Blocks) {
    result.Set("rowBytes", tensor.shape.back() / type->weights * type->bytes);
  }
  return result;
}

// readGguf(handle) → { metadata: [key, value, …], tensors }
napi_value read_gguf_file(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const auto file = *info[0].As<Napi::External<std::shared_ptr<Mapping>>>().Data();
  if (!file) throw CodedError("DISPOSED", "the mapped file was disposed");
  Collected metadata(env);
  const auto found = read_gguf(file->bytes(), metadata);
  auto tensors = Napi::Array::New(env, found.size());
  for (uint32_t i = 0; i < found.size(); ++i) tensors.Set(i, described(env, found[i]));
  auto result = Napi::Object::New(env);
  result.Set("metadata", Napi::Value(env, metadata.all()));
  result.Set("tensors", tensors);
  return result;
}

}  // namespace

void export_gguf(Napi::Env, Napi::Object exports) {
  export_function<read_gguf_file>(exports, "readGguf");
}

}  // namespace mlx_runners
