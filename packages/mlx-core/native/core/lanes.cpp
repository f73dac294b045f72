#include "core/lanes.h"

#include <array>
#include <atomic>

#include "core/errors.h"

namespace mlx_runners {
namespace {

namespace mx = mlx::core;

// More environments than lanes share them in turn. A lane costs one idle thread.
constexpr int count = 16;

std::array<Lane, count>& lanes() {
  // Leaked on purpose: other threads may still be evaluating while statics are destroyed.
  static auto* all = new std::array<Lane, count>();
  return *all;
}

}  // namespace

Lane::Lane() : cpu(mx::new_thread_unsafe_stream(mx::Device::cpu)) {
  if (mx::is_available(mx::Device::gpu)) gpu = mx::new_thread_unsafe_stream(mx::Device::gpu);
}

const mx::Stream& Lane::stream(mx::Device::DeviceType type) const {
  if (type == mx::Device::cpu) return cpu;
  if (!gpu) {
    throw CodedError("NATIVE", "this machine has no GPU that MLX can use; the device must be cpu");
  }
  return *gpu;
}

LaneLock::LaneLock(Lane& lane, mx::Stream stream) : lock_(lane.mutex) {
  thread_local int current_index = -1;
  if (current_index == stream.index) return;
  mx::set_default_device(stream.device);
  mx::set_default_stream(stream);
  current_index = stream.index;
}

Lane& assign_lane() {
  static std::atomic<unsigned> next{0};
  return lanes()[next++ % count];
}

int lane_count() { return count; }

}  // namespace mlx_runners
