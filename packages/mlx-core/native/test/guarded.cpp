#include "guarded.h"

#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/pool.h"

namespace mlx_runners::testing {

void use_kernels(std::mt19937_64& random) {
  cpu::set_threads(static_cast<int>(draw(random, 1, 4)));
}

void require_level() {
  const std::string note = cpu::simd_note();
  if (!note.empty()) throw Skip(note);
}

}  // namespace mlx_runners::testing
