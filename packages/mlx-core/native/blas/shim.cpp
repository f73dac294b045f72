// Stands in for the BLAS and LAPACK that libmlx was linked against. The libraries built from this
// file carry their names, so that the dynamic linker gives them to libmlx, and pass every call on
// to OpenBLAS. The entries, except cblas_sgemm, are written at configure time by needed.mjs.

// lapack.h builds the Fortran names with this macro; the wheel's have a prefix.
#define LAPACK_GLOBAL(lower, upper) scipy_##lower##_

#include <cblas.h>
#include <errno.h>
#include <lapack.h>
#include <semaphore.h>
#include <stddef.h>
#include <stdint.h>

#include <algorithm>
#include <atomic>

#define MLX_RUNNERS_ENTRY extern "C" __attribute__((visibility("default")))

namespace {

// OpenBLAS takes a work buffer for each call from a fixed table and aborts the process when that is
// full: measured, 120 calling threads are safe and 300 to 400 are not.
constexpr int kMaxCalls = 32;

// A POSIX semaphore, since std::counting_semaphore of GCC 12's library can sleep for ever
// (GCC bug 104928).
sem_t free_calls;

// OpenBLAS's own threads serve one call at a time and share it out in equal parts, so that all wait
// for the one whose core is taken: two calls at once on two cores, or one beside a busy program,
// were 5 to 10 times slower than on one thread. So they are used only by a call that finds no other
// running, and never by the most frequent one, cblas_sgemm.
std::atomic<int> running_calls{0};
std::atomic<int> threads{1};

__attribute__((constructor)) void initialize() {
  sem_init(&free_calls, 0, kMaxCalls);
  threads = scipy_openblas_get_num_threads();
}

/// Held for the length of a call. A call made inside another one takes no second permit: 32 threads
/// that each waited for their second would wait for ever.
class Permit {
 public:
  explicit Permit(bool may_use_threads = true) {
    if (depth_++ > 0) return;
    while (sem_wait(&free_calls) != 0 && errno == EINTR) {
    }
    scipy_openblas_set_num_threads(running_calls++ == 0 && may_use_threads ? threads.load() : 1);
  }
  ~Permit() {
    if (--depth_ > 0) return;
    --running_calls;
    sem_post(&free_calls);
  }
  Permit(const Permit&) = delete;
  Permit& operator=(const Permit&) = delete;

 private:
  static thread_local int depth_;
};

thread_local int Permit::depth_ = 0;

// ---- cblas_sgemm: cut into pieces for the program's own pool, each on one thread ----

using Piece = void (*)(void* context, int index);
/// Runs piece(context, i) for every i below `count`, on whichever threads are free.
using Pool = void (*)(int count, Piece piece, void* context);
std::atomic<Pool> pool{nullptr};

// Narrower pieces would spend their time packing the operand that all of them share.
constexpr blasint kPieceWidth = 128;
// Multiplications below which a product isn't worth waking a thread for.
constexpr double kSmallProduct = 2e6;

/// c [m, n] = alpha a b + beta c, all of them by columns, as Fortran has them.
struct Product {
  CBLAS_TRANSPOSE transpose_a;
  CBLAS_TRANSPOSE transpose_b;
  blasint m, n, k;
  float alpha;
  const float* a;
  blasint lda;
  const float* b;
  blasint ldb;
  float beta;
  float* c;
  blasint ldc;

  /// Rows [begin, end) of it, or columns.
  Product rows(blasint begin, blasint end) const {
    Product part = *this;
    part.m = end - begin;
    part.a += static_cast<ptrdiff_t>(begin) * (transpose_a == CblasNoTrans ? 1 : lda);
    part.c += begin;
    return part;
  }
  Product columns(blasint begin, blasint end) const {
    Product part = *this;
    part.n = end - begin;
    part.b += static_cast<ptrdiff_t>(begin) * (transpose_b == CblasNoTrans ? ldb : 1);
    part.c += static_cast<ptrdiff_t>(begin) * ldc;
    return part;
  }
  void compute() const {
    const Permit permit(false);
    scipy_cblas_sgemm(CblasColMajor, transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta,
                      c, ldc);
  }
};

void compute_in_pieces(const Product& product, Pool run) {
  struct Cut {
    const Product& whole;
    blasint size;
    int pieces;
    bool by_columns;
  };
  const bool by_columns = product.n >= product.m;
  const blasint size = by_columns ? product.n : product.m;
  Cut cut{product, size, std::max(1, size / kPieceWidth), by_columns};
  const auto piece = [](void* context, int index) {
    const Cut& cut = *static_cast<const Cut*>(context);
    const auto bound = [&](int i) {
      return static_cast<blasint>(static_cast<int64_t>(cut.size) * i / cut.pieces);
    };
    const blasint begin = bound(index);
    const blasint end = bound(index + 1);
    (cut.by_columns ? cut.whole.columns(begin, end) : cut.whole.rows(begin, end)).compute();
  };
  run(cut.pieces, piece, &cut);
}

}  // namespace

MLX_RUNNERS_ENTRY void mlx_runners_blas_use_pool(Pool chosen) { pool = chosen; }

MLX_RUNNERS_ENTRY void cblas_sgemm(CBLAS_ORDER order, CBLAS_TRANSPOSE transpose_a,
                                   CBLAS_TRANSPOSE transpose_b, blasint m, blasint n, blasint k,
                                   float alpha, const float* a, blasint lda, const float* b,
                                   blasint ldb, float beta, float* c, blasint ldc) {
  // By rows, a product is that of the transposed operands by columns.
  const Product product =
      order == CblasColMajor
          ? Product{transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc}
          : Product{transpose_b, transpose_a, n, m, k, alpha, b, ldb, a, lda, beta, c, ldc};
  const Pool run = pool;
  if (run == nullptr || static_cast<double>(m) * n * k < kSmallProduct) return product.compute();
  compute_in_pieces(product, run);
}

/// By this symbol the probe recognises the library. Returns how many calls run at once at most.
MLX_RUNNERS_ENTRY int mlx_runners_blas_shim() { return kMaxCalls; }

/// The number of threads that a call runs on which has OpenBLAS to itself.
MLX_RUNNERS_ENTRY int mlx_runners_blas_threads() { return threads; }
MLX_RUNNERS_ENTRY void mlx_runners_blas_set_threads(int count) { threads = std::max(count, 1); }

#include "entries.inc"
