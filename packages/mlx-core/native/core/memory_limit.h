// The bytes that arrays may take in this process, and the refusal of what would take more. Without
// it, MLX's CPU allocator writes to address 0 when the system gives no memory, and Linux, which
// mostly does give it, ends the process later.
//
// Refused is only what surely doesn't fit: an evaluation needs room for its results, and for the
// largest array on the way to them; how many of those are alive at a time isn't known beforehand.
#pragma once

#include <cstddef>
#include <vector>

#include "mlx/array.h"

namespace mlx_runners {

// Bytes that a live array costs besides its buffer: MLX's node, its slot and the JavaScript objects
// (1.6 KB in a loop of additions), and a share of the backend's limit on the number of live
// buffers.
inline constexpr int array_overhead = 2048;

size_t memory_limit();
void set_memory_limit(size_t bytes);

// Where nothing else is said, all but new_bytes throw CodedError "MEMORY".

// Before a buffer is allocated.
void require_memory(double bytes);

// When an op has made a node: on the CPU MLX counts elements in 32 bits in places, and gives wrong
// results or writes outside of them where there are more. Views of loaded arrays may have more;
// throws CodedError "SHAPE" for all others.
void require_countable(const mlx::core::array& result);

// When an op has made a node, which isn't computed yet: besides, alone it must be within the limit.
void require_possible(const mlx::core::array& result);

// What computing an array allocates: nothing for those that lie in another's buffer.
double new_bytes(const mlx::core::array& array);

// Before `arrays` are evaluated, with their lane held.
void require_memory_for(const std::vector<mlx::core::array>& arrays);

}  // namespace mlx_runners
