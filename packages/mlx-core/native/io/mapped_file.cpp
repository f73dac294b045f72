// Files mapped into memory: tensors are taken from the page cache, one by one, as they are asked
// for, without an intermediate copy in JavaScript.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>

#include "core/environment.h"
#include "core/exports.h"
#include "core/guard.h"
#include "core/shape_argument.h"
#include "mlx/allocator.h"

namespace mlx_runners {
namespace mx = mlx::core;
namespace {

class MappedFile {
 public:
  explicit MappedFile(const std::string& path) {
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) fail(path);
    struct stat status;
    if (fstat(file, &status) != 0) {
      close(file);
      fail(path);
    }
    size_ = static_cast<size_t>(status.st_size);
    if (size_ > 0) {
      void* address = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file, 0);
      if (address == MAP_FAILED) {
        close(file);
        fail(path);
      }
      address_ = static_cast<char*>(address);
    }
    close(file);
  }
  ~MappedFile() {
    if (address_) munmap(address_, size_);
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  char* address() const { return address_; }
  size_t size() const { return size_; }

 private:
  [[noreturn]] static void fail(const std::string& path) {
    throw CodedError("CHECKPOINT", path + ": " + std::strerror(errno));
  }

  char* address_ = nullptr;
  size_t size_ = 0;
};

using Handle = std::shared_ptr<MappedFile>;

// mapFile(path) → handle
napi_value map_file(const Napi::CallbackInfo& info) {
  auto* handle = new Handle(std::make_shared<MappedFile>(info[0].As<Napi::String>().Utf8Value()));
  return Napi::External<Handle>::New(info.Env(), handle,
                                     [](Napi::Env, Handle* old) { delete old; });
}

// mappedArray(handle, byteOffset, dtype, shape, tracked) → id
napi_value mapped_array(const Napi::CallbackInfo& info) {
  const Handle file = *info[0].As<Napi::External<Handle>>().Data();
  const double offset = info[1].As<Napi::Number>().DoubleValue();
  const mx::Dtype dtype = dtype_argument(info[2]);
  if (!(offset >= 0 && offset <= static_cast<double>(file->size()))) {
    throw CodedError("CHECKPOINT", "a tensor starts outside its file");
  }
  const auto start = static_cast<size_t>(offset);
  const mx::Shape shape = shape_argument(info[3], dtype, file->size() - start, false);
  size_t elements = 1;
  for (auto size : shape) elements *= static_cast<size_t>(size);
  auto data = mx::allocator::malloc(std::max<size_t>(elements * dtype.size(), 1));
  mx::array array(std::move(data), shape, dtype);
  if (array.nbytes()) std::memcpy(array.data<char>(), file->address() + start, array.nbytes());
  auto& environment = Environment::of(info.Env());
  return Napi::Number::New(info.Env(), environment.add(std::move(array), info[4].ToBoolean()));
}

}  // namespace

void export_files(Napi::Env, Napi::Object exports) {
  export_function<map_file>(exports, "mapFile");
  export_function<mapped_array>(exports, "mappedArray");
}

}  // namespace mlx_runners
