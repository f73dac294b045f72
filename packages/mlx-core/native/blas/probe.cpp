#include "probe.h"

#include <dlfcn.h>
#ifdef __linux__
#include <elf.h>
#include <link.h>
#endif

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace mlx_runners {
namespace {

constexpr const char* kSymbol = "cblas_sgemm";

std::string file_of(const void* address) {
  Dl_info info{};
  if (address == nullptr || dladdr(address, &info) == 0 || info.dli_fname == nullptr) return {};
  return info.dli_fname;
}

/// A handle on a library that is in the process already; null when it isn't. To be closed.
void* loaded_library(const char* name) { return dlopen(name, RTLD_LAZY | RTLD_NOLOAD); }

#ifdef __linux__
/// What the linker has written into libmlx's table for calls to kSymbol: the truth about this
/// process, whatever else exports that name. Null while it is not bound.
void* bound_address(void* libmlx) {
  link_map* map = nullptr;
  if (dlinfo(libmlx, RTLD_DI_LINKMAP, &map) != 0) return nullptr;
  const ElfW(Rela)* relocations = nullptr;
  const ElfW(Sym)* symbols = nullptr;
  const char* names = nullptr;
  std::size_t count = 0;
  for (const ElfW(Dyn)* entry = map->l_ld; entry->d_tag != DT_NULL; ++entry) {
    const auto address = entry->d_un.d_ptr;
    if (entry->d_tag == DT_JMPREL) relocations = reinterpret_cast<const ElfW(Rela)*>(address);
    if (entry->d_tag == DT_PLTRELSZ) count = entry->d_un.d_val / sizeof(ElfW(Rela));
    if (entry->d_tag == DT_SYMTAB) symbols = reinterpret_cast<const ElfW(Sym)*>(address);
    if (entry->d_tag == DT_STRTAB) names = reinterpret_cast<const char*>(address);
  }
  if (relocations == nullptr || symbols == nullptr || names == nullptr) return nullptr;
  for (std::size_t i = 0; i < count; ++i) {
    const auto& symbol = symbols[ELF64_R_SYM(relocations[i].r_info)];
    if (std::string_view(names + symbol.st_name) != kSymbol) continue;
    void* target = *reinterpret_cast<void**>(map->l_addr + relocations[i].r_offset);
    // An entry that is not bound yet points back into libmlx.
    return file_of(target) == file_of(map->l_ld) ? nullptr : target;
  }
  return nullptr;
}

void* blas_address() {
  void* libmlx = loaded_library("libmlx.so");
  if (libmlx == nullptr) return dlsym(RTLD_DEFAULT, kSymbol);
  void* bound = bound_address(libmlx);
  void* address = bound != nullptr ? bound : dlsym(libmlx, kSymbol);
  dlclose(libmlx);
  return address;
}
#else
// macOS: libmlx.dylib was linked against the Accelerate framework; nothing can stand in for it.
void* blas_address() { return dlsym(RTLD_DEFAULT, kSymbol); }
#endif

/// Functions of our replacement and of OpenBLAS, all null without our replacement.
struct OpenBlas {
  char* (*config)() = nullptr;
  char* (*core)() = nullptr;
  int (*threads)() = nullptr;
  void (*set_threads)(int) = nullptr;
  void (*use_pool)(BlasPool) = nullptr;
};

template <typename Function>
void find(void* handle, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(handle, name));
}

OpenBlas find_openblas(const std::string& library) {
  OpenBlas found;
  void* handle = library.empty() ? nullptr : loaded_library(library.c_str());
  if (handle == nullptr) return found;
  if (dlsym(handle, "mlx_runners_blas_shim") != nullptr) {
    // A search from the replacement goes on in OpenBLAS, which it needs.
    find(handle, "scipy_openblas_get_config", found.config);
    find(handle, "scipy_openblas_get_corename", found.core);
    find(handle, "mlx_runners_blas_threads", found.threads);
    find(handle, "mlx_runners_blas_set_threads", found.set_threads);
    find(handle, "mlx_runners_blas_use_pool", found.use_pool);
  }
  dlclose(handle);
  return found;
}

std::string name_of(const std::string& library) {
  const auto contains = [&](const char* part) { return library.find(part) != std::string::npos; };
  if (library.empty()) return "none";
  if (contains("Accelerate") || contains("vecLib")) return "accelerate";
  const auto file = library.substr(library.rfind('/') + 1);
  return file.starts_with("libblas") ? "reference" : "other";
}

}  // namespace

BlasInfo blas_info() {
  BlasInfo info;
  info.library = file_of(blas_address());
  const OpenBlas openblas = find_openblas(info.library);
  info.name = openblas.config != nullptr ? "openblas" : name_of(info.library);
  if (openblas.config != nullptr) info.config = openblas.config();
  if (openblas.core != nullptr) info.core = openblas.core();
  if (openblas.threads != nullptr) info.threads = openblas.threads();
  return info;
}

std::string blas_in_use() {
  const BlasInfo info = blas_info();
  std::string details;
  if (!info.core.empty()) details += info.core + ", ";
  if (info.threads > 0) details += std::to_string(info.threads) + " threads, ";
  details += info.library;
  return details.empty() ? info.name : info.name + " (" + details + ")";
}

void set_blas_threads(int threads) {
  const OpenBlas openblas = find_openblas(file_of(blas_address()));
  if (openblas.set_threads != nullptr) openblas.set_threads(threads);
}

void set_blas_pool(BlasPool pool) {
  const OpenBlas openblas = find_openblas(file_of(blas_address()));
  if (openblas.use_pool != nullptr) openblas.use_pool(pool);
}

int blas_threads() {
  const OpenBlas openblas = find_openblas(file_of(blas_address()));
  return openblas.threads != nullptr ? openblas.threads() : 0;
}

}  // namespace mlx_runners
