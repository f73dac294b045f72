// Lanes: who may touch which MLX stream, and when.
//
// MLX's streams belong to the thread that made them. "Thread-unsafe" streams may be used from any
// thread, but only by one at a time; and none may be made while others evaluate. So a fixed set of
// lanes is made once, before any evaluation; every environment and session belongs to one, and
// building, dropping and evaluating arrays happens under the lane's mutex. Only evaluated arrays
// may cross from one lane to another.
#pragma once

#include <future>
#include <mutex>
#include <optional>

#include "mlx/device.h"
#include "mlx/stream.h"

namespace mlx_runners {

struct Lane {
  std::mutex mutex;
  mlx::core::Stream cpu;
  std::optional<mlx::core::Stream> gpu;

  Lane();
  const mlx::core::Stream& stream(mlx::core::Device::DeviceType type) const;
};

// Held while arrays of a lane are built, dropped or evaluated; also makes the lane's streams the
// thread's defaults, since some of MLX's ops build on the default stream.
class LaneLock {
 public:
  LaneLock(Lane& lane, mlx::core::Stream stream);

 private:
  std::unique_lock<std::mutex> lock_;
};

// Is there when what is queued on a CPU stream so far is done; throws the first error of that,
// which the stream then forgets.
std::future<void> completion(mlx::core::Stream stream);

// Waits for what a failed call has queued on a stream, and drops the error that this has left: it
// would come out of the next call.
void drain(mlx::core::Stream stream) noexcept;

// The next lane in turn. The first call makes them all.
Lane& assign_lane();

int lane_count();

}  // namespace mlx_runners
