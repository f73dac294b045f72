// Stands in for the BLAS and LAPACK that libmlx was linked against. The libraries built from this
// file carry their names, so that the dynamic linker gives them to libmlx, and pass every call on
// to OpenBLAS. The entries themselves are written at configure time by needed.mjs.

// lapack.h builds the Fortran names with this macro; the wheel's have a prefix.
#define LAPACK_GLOBAL(lower, upper) scipy_##lower##_

#include <cblas.h>
#include <errno.h>
#include <lapack.h>
#include <semaphore.h>

#define MLX_RUNNERS_ENTRY extern "C" __attribute__((visibility("default")))

namespace {

// OpenBLAS takes a work buffer for each call from a fixed table and aborts the process when that is
// full: measured, 120 calling threads are safe and 300 to 400 are not.
constexpr int kMaxCalls = 32;

// A POSIX semaphore, since std::counting_semaphore of GCC 12's library can sleep for ever
// (GCC bug 104928).
sem_t free_calls;

__attribute__((constructor)) void initialize_free_calls() { sem_init(&free_calls, 0, kMaxCalls); }

/// Held for the length of a call. A call made inside another one takes no second permit: 32 threads
/// that each waited for their second would wait for ever.
class Permit {
 public:
  Permit() {
    if (depth_++ > 0) return;
    while (sem_wait(&free_calls) != 0 && errno == EINTR) {
    }
  }
  ~Permit() {
    if (--depth_ == 0) sem_post(&free_calls);
  }
  Permit(const Permit&) = delete;
  Permit& operator=(const Permit&) = delete;

 private:
  static thread_local int depth_;
};

thread_local int Permit::depth_ = 0;

}  // namespace

/// By this symbol the probe recognises the library. Returns how many calls run at once at most.
MLX_RUNNERS_ENTRY int mlx_runners_blas_shim() { return kMaxCalls; }

#include "entries.inc"
