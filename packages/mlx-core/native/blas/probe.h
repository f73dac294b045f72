#pragma once

#include <string>

namespace mlx_runners {

/// The BLAS that libmlx's matrix products and factorisations run on, on the CPU.
struct BlasInfo {
  /// "openblas" (our replacement is bound), "accelerate", "reference" (a libblas that is not ours,
  /// about 40 times slower), "other", or "none" when the process has no BLAS.
  std::string name;
  /// The library file that libmlx's `cblas_sgemm` comes from; empty for "none".
  std::string library;
  /// OpenBLAS's build line and the kernels that it chose for this CPU; empty for any other BLAS.
  std::string config;
  std::string core;
  /// 0 when the BLAS does not tell.
  int threads = 0;
};

/// Looks at the running process, without linking to any BLAS: call it once libmlx is loaded. Before
/// libmlx's first matrix product the dynamic linker may not have bound the symbol yet; then this is
/// what it would find.
BlasInfo blas_info();

/// `blas_info()` in one line, its name first: "openblas (SkylakeX, 2 threads, .../libblas.so.3)".
std::string blas_in_use();

/// The number of threads that one call into OpenBLAS runs on, at least 1; calls at once run on one
/// each. Without effect on any other BLAS, whose count reads as 0.
/// Single-precision matrix products don't use OpenBLAS's threads but the pool given below, if any.
void set_blas_threads(int threads);
int blas_threads();

/// Has OpenBLAS's single-precision matrix products cut into pieces and run by `pool`, which calls
/// piece(context, i) for every i below `count` and returns when all are done. Without effect on any
/// other BLAS.
using BlasPool = void (*)(int count, void (*piece)(void* context, int index), void* context);
void set_blas_pool(BlasPool pool);

}  // namespace mlx_runners
