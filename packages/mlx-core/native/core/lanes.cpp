#include "core/lanes.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <latch>
#include <memory>
#include <thread>

#include "core/errors.h"
#include "mlx/scheduler.h"

namespace mlx_runners {
namespace {

namespace mx = mlx::core;

// More environments than lanes share them in turn. A lane costs one idle thread.
constexpr int count = 16;

// To the thread that made its scheduler MLX reports errors of a stream while that thread hands over
// work, and then forgets that the work never came to run: after some ten errors, every evaluation
// waits for it for ever (CommandEncoder::dispatch and StreamThread::enqueue in MLX 0.32). So a
// thread makes it that does nothing else, and errors come when evaluations end.
void make_scheduler() {
  static std::latch made(1);
  std::thread([] {
    mx::scheduler::scheduler();
    made.count_down();
    for (;;) pause();
  }).detach();
  made.wait();
}

std::array<Lane, count>& lanes() {
  // Leaked on purpose: other threads may still be evaluating while statics are destroyed.
  static auto* all = [] {
    make_scheduler();
    return new std::array<Lane, count>();
  }();
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
  thread_local const Lane* current = nullptr;
  if (current != &lane) {
    // Of both devices: MLX would make a stream for a thread that has no default.
    mx::set_default_stream(lane.cpu);
    if (lane.gpu) mx::set_default_stream(*lane.gpu);
    current = &lane;
  }
  // Streams are a thread's own, the default device is the process's.
  if (mx::default_device() != stream.device) mx::set_default_device(stream.device);
}

std::future<void> completion(mx::Stream stream) {
  auto promise = std::make_shared<std::promise<void>>();
  auto future = promise->get_future();
  mx::scheduler::enqueue(stream, [promise, stream] {
    try {
      mx::scheduler::check_error(stream);
      promise->set_value();
    } catch (...) {
      promise->set_exception(std::current_exception());
    }
  });
  return future;
}

void drain(mx::Stream stream) noexcept {
  try {
    mx::synchronize(stream);
  } catch (const std::exception&) {
  }
}

Lane& assign_lane() {
  static std::atomic<unsigned> next{0};
  return lanes()[next++ % count];
}

int lane_count() { return count; }

}  // namespace mlx_runners
