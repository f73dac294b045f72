#include "io/mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <compare>
#include <cstring>
#include <map>
#include <mutex>

#include "core/errors.h"
#include "core/memory_limit.h"
#include "mlx/allocator.h"
#include "system/process_memory.h"

#if defined(__linux__) && !defined(MADV_POPULATE_READ)
#define MADV_POPULATE_READ 22
#endif

namespace mlx_runners {
namespace mx = mlx::core;
namespace {

std::atomic<size_t> bytes_mapped{0};

// Larger files are read where their pages are first used, mostly by native threads: reading them
// whole would hold the event loop, for parts that may never be asked for.
[[maybe_unused]] constexpr size_t largest_populated = 512 << 20;

// MLX's CPU allocator keeps a buffer's size in front of its data, and a Buffer points to it.
constexpr size_t header = sizeof(size_t);

// Asks the allocator itself, whose buffers on a GPU are objects of another kind. Where it says no,
// arrays are copies: right, but slow, which the tests notice.
bool data_follows_its_size() {
  static const bool yes = [] {
    return std::ranges::all_of(std::initializer_list<size_t>{24, 40, 5000}, [](size_t size) {
      auto data = mx::allocator::malloc(size);
      mx::allocator::Buffer buffer = data.buffer();
      size_t written = 0;
      std::memcpy(&written, buffer.ptr(), header);
      return static_cast<char*>(buffer.raw_ptr()) == static_cast<char*>(buffer.ptr()) + header &&
             written == size && mx::allocator::allocator().size(buffer) == size;
    });
  }();
  return yes;
}

size_t page_size() {
  static const auto bytes = static_cast<size_t>(sysconf(_SC_PAGE_SIZE));
  return bytes;
}

class File {
 public:
  // Doesn't block when the path names a pipe.
  explicit File(const std::string& path)
      : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (descriptor_ < 0 || fstat(descriptor_, &status_) != 0) fail(errno);
    if (S_ISDIR(status_.st_mode)) fail(EISDIR);
    if (!S_ISREG(status_.st_mode)) throw CodedError("CHECKPOINT", "this is not a file");
  }
  ~File() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  int descriptor() const { return descriptor_; }
  const struct stat& status() const { return status_; }

 private:
  [[noreturn]] void fail(int error) {
    if (descriptor_ >= 0) close(descriptor_);
    throw CodedError("CHECKPOINT", std::strerror(error));
  }

  int descriptor_;
  struct stat status_{};
};

}  // namespace

// A file that was written anew is another one, also under its old name.
struct Mapping::Key {
  dev_t device;
  ino_t inode;
  off_t size;
  time_t seconds;
  long nanoseconds;

  auto operator<=>(const Key&) const = default;

  static Key of(const struct stat& status) {
#ifdef __APPLE__
    const timespec& written = status.st_mtimespec;
#else
    const timespec& written = status.st_mtim;
#endif
    return {status.st_dev, status.st_ino, status.st_size, written.tv_sec, written.tv_nsec};
  }
};

struct Mapping::Registry {
  std::mutex mutex;
  std::map<Key, std::weak_ptr<Mapping>> files;
};

Mapping::Registry& Mapping::registry() {
  static auto* all = new Registry();  // arrays may outlive statics
  return *all;
}

std::shared_ptr<Mapping> Mapping::open(const std::string& path) {
  try {
    const File file(path);
    auto& [mutex, files] = registry();
    std::lock_guard lock(mutex);
    std::erase_if(files, [](const auto& entry) { return entry.second.expired(); });
    auto& known = files[Key::of(file.status())];
    auto mapping = known.lock();
    if (!mapping) {
      mapping.reset(new Mapping(file.descriptor(), static_cast<size_t>(file.status().st_size)));
      known = mapping;
    }
    return mapping;
  } catch (const CodedError& error) {
    throw CodedError(error.code(), path + ": " + error.what());
  }
}

Mapping::Mapping(int file, size_t size) : size_(size) {
  // The page in front is never written: it is zeros, and so says to MLX that the buffer has no
  // size, by which MLX shares it for views of any part (mx::contiguous copies out of much larger
  // buffers).
  const size_t bytes = page_size() + size;
  void* reserved = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (reserved == MAP_FAILED) throw CodedError("CHECKPOINT", std::strerror(errno));
  reserved_ = static_cast<char*>(reserved);
  if (size > 0 && mmap(data(), size, PROT_READ, MAP_PRIVATE | MAP_FIXED, file, 0) == MAP_FAILED) {
    const int error = errno;
    munmap(reserved_, bytes);
    throw CodedError("CHECKPOINT", std::strerror(error));
  }
  bytes_mapped += size;
#ifdef MADV_POPULATE_READ
  // One call instead of a fault every 64 KB. Fails before Linux 5.14, where the faults come then.
  if (size <= std::min(largest_populated, free_memory() / 4)) {
    madvise(data(), size, MADV_POPULATE_READ);
  }
#endif
}

Mapping::~Mapping() {
  munmap(reserved_, page_size() + size_);
  bytes_mapped -= size_;
}

void Mapping::release_pages(size_t offset, size_t bytes) const {
  const size_t first = (offset + page_size() - 1) / page_size() * page_size();
  const size_t last = (offset + bytes) / page_size() * page_size();
  if (last > first) madvise(data() + first, last - first, MADV_DONTNEED);
}

char* Mapping::data() const { return reserved_ + page_size(); }

size_t Mapping::total_bytes() { return bytes_mapped; }

mx::array Mapping::array(const std::shared_ptr<Mapping>& file, size_t offset, mx::Shape shape,
                         mx::Dtype dtype) {
  mx::array array(std::move(shape), dtype, nullptr, {});
  if (data_follows_its_size()) {
    // MLX writes results only into buffers that its allocator owns, so never into the file.
    mx::allocator::Data shared(mx::allocator::Buffer(file->data() - header),
                               [file, offset, bytes = array.nbytes()](mx::allocator::Buffer) {
                                 file->release_pages(offset, bytes);
                               });
    mx::array::Flags flags{};
    flags.contiguous = flags.row_contiguous = true;
    flags.col_contiguous =
        array.size() <= 1 ||
        array.size() == static_cast<size_t>(*std::ranges::max_element(array.shape()));
    array.set_data(std::move(shared), array.size(), array.strides(), flags,
                   static_cast<int64_t>(offset));
  } else {
    // Metal could wrap whole pages by make_buffer(), once it runs where that can be measured.
    require_memory(static_cast<double>(array.nbytes()));
    array.set_data(mx::allocator::malloc(std::max<size_t>(array.nbytes(), 1)));
    if (array.nbytes()) std::memcpy(array.data<char>(), file->data() + offset, array.nbytes());
  }
  array.set_status(mx::array::Status::available);
  return array;
}

}  // namespace mlx_runners
