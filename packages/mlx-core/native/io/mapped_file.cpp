// Mapped files for JavaScript, which reads the formats and says where tensors lie.
#include <memory>
#include <string>

#include "core/environment.h"
#include "core/exports.h"
#include "core/guard.h"
#include "core/shape_argument.h"
#include "io/mapping.h"

namespace mlx_runners {
namespace mx = mlx::core;
namespace {

using Handle = std::shared_ptr<Mapping>;

Handle& handle_of(const Napi::Value& value) { return *value.As<Napi::External<Handle>>().Data(); }

// mapFile(path) → handle
napi_value map_file(const Napi::CallbackInfo& info) {
  auto* handle = new Handle(Mapping::open(info[0].As<Napi::String>().Utf8Value()));
  return Napi::External<Handle>::New(info.Env(), handle,
                                     [](Napi::Env, Handle* old) { delete old; });
}

// unmapFile(handle): arrays taken from the file keep it
napi_value unmap_file(const Napi::CallbackInfo& info) {
  handle_of(info[0]).reset();
  return nullptr;
}

// mappedArray(handle, byteOffset, dtype, shape, tracked) → id
napi_value mapped_array(const Napi::CallbackInfo& info) {
  const Handle file = handle_of(info[0]);
  if (!file) throw CodedError("DISPOSED", "the mapped file was disposed");
  const double offset = info[1].As<Napi::Number>().DoubleValue();
  const mx::Dtype dtype = dtype_argument(info[2]);
  if (!(offset >= 0 && offset <= static_cast<double>(file->size()))) {
    throw CodedError("CHECKPOINT", "a tensor starts outside its file");
  }
  const auto start = static_cast<size_t>(offset);
  const mx::Shape shape = shape_argument(info[3], dtype, file->size() - start, false);
  auto& environment = Environment::of(info.Env());
  const double id = environment.arrays.insert(Mapping::array(file, start, shape, dtype));
  if (info[4].ToBoolean()) environment.track(id);
  return Napi::Number::New(info.Env(), id);
}

}  // namespace

void export_files(Napi::Env, Napi::Object exports) {
  export_function<map_file>(exports, "mapFile");
  export_function<unmap_file>(exports, "unmapFile");
  export_function<mapped_array>(exports, "mappedArray");
}

}  // namespace mlx_runners
