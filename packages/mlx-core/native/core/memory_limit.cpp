#include "core/memory_limit.h"

#include <algorithm>
#include <atomic>
#include <iomanip>
#include <limits>
#include <sstream>
#include <string>
#include <string_view>
#include <unordered_set>

#include "core/array_table.h"
#include "core/errors.h"
#include "mlx/device.h"
#include "mlx/memory.h"
#include "mlx/primitives.h"
#include "system/process_memory.h"

namespace mlx_runners {
namespace mx = mlx::core;
namespace {

// What is left to Node, JavaScript's heap, code, and to what malloc rounds up.
constexpr double share_of_arrays = 0.8;
// Address space that the threads of an evaluation may take for their own stacks and heaps.
constexpr double reserved_address_space = 256 << 20;

std::atomic<size_t>& limit() {
  static std::atomic<size_t> bytes = [] {
    // MLX knows the memory of its own GPU backends.
    if (mx::is_available(mx::Device::gpu)) return mx::get_memory_limit();
    const auto share = static_cast<size_t>(share_of_arrays * process_memory());
    mx::set_memory_limit(share);
    return share;
  }();
  return bytes;
}

// The largest result that any op has made in this process, computed or not.
std::atomic<double> largest_result{0};

double in_use() {
  return static_cast<double>(mx::get_active_memory()) +
         array_overhead * static_cast<double>(ArrayTable::total_live());
}

double room_to_limit() { return static_cast<double>(limit()) - in_use(); }

double address_space() {
  return std::max(0.0, static_cast<double>(address_space_left()) - reserved_address_space);
}

// array.size() and array.nbytes() may overflow.
double elements_of(const mx::array& array) {
  double elements = 1;
  for (auto size : array.shape()) elements *= size;
  return elements;
}
double bytes_of(const mx::array& array) { return elements_of(array) * array.itemsize(); }

bool unscheduled(const mx::array& array) {
  return array.status() == mx::array::Status::unscheduled;
}

// Whether an op's result mostly lies in its input's buffer.
bool is_view(const mx::array& array) {
  static const std::unordered_set<std::string_view> views{
      "AsStrided",    "Broadcast",        "BroadcastAxes",     "Contiguous", "Copy",
      "ExpandDims",   "Flatten",          "Reshape",           "Slice",      "Split",
      "StopGradient", "Squeeze",          "Transpose",         "Unflatten",  "View",
      "Depends",      "CustomTransforms", "SliceUpdateInPlace"};
  return !array.inputs().empty() && views.contains(array.primitive().name());
}

// The array in whose buffer this one will lie.
const mx::array& base_of(const mx::array& array) {
  const mx::array* base = &array;
  while (unscheduled(*base) && is_view(*base)) base = &base->inputs().front();
  return *base;
}

// Whether the result can take over an input's buffer, which nothing else holds any more.
bool is_in_place(const mx::array& array) {
  return std::ranges::any_of(array.inputs(), [&](const mx::array& input) {
    const mx::array& base = base_of(input);
    return !unscheduled(base) && base.is_donatable() && base.nbytes() >= array.nbytes();
  });
}

double new_bytes_of(const mx::array& array) {
  return unscheduled(array) && !is_view(array) && !is_in_place(array) ? bytes_of(array) : 0;
}

// What `arrays` themselves will take: the buffers that they, or what they are views of, lie in.
double bytes_of_results(const std::vector<mx::array>& arrays) {
  std::unordered_set<std::uintptr_t> seen;
  double bytes = 0;
  for (const mx::array& array : arrays) {
    const mx::array& base = base_of(array);
    if (unscheduled(base) && seen.insert(base.id()).second) bytes += new_bytes_of(base);
  }
  return bytes;
}

double largest_in_graph(const std::vector<mx::array>& arrays) {
  std::unordered_set<std::uintptr_t> seen;
  std::vector<const mx::array*> open;
  double largest = 0;
  const auto visit = [&](const mx::array& array) {
    if (!unscheduled(array) || !seen.insert(array.id()).second) return;
    largest = std::max(largest, new_bytes_of(array));
    open.push_back(&array);
  };
  for (const mx::array& array : arrays) visit(array);
  while (!open.empty()) {
    const mx::array& array = *open.back();
    open.pop_back();
    for (const mx::array& input : array.inputs()) visit(input);
  }
  return largest;
}

std::string in_words(double bytes) {
  static constexpr const char* units[] = {" bytes", " kB", " MB", " GB"};
  size_t unit = 0;
  for (; bytes >= 1000 && unit < std::size(units) - 1; bytes /= 1000) ++unit;
  std::ostringstream text;
  text << std::setprecision(bytes < 100 ? 3 : 4) << bytes << units[unit];
  return text.str();
}

[[noreturn]] void refuse(double bytes, const std::string& room) {
  throw CodedError("MEMORY",
                   "this takes " + in_words(bytes) + " besides the " + in_words(in_use()) +
                       " that arrays have, and " + room +
                       ". mx.tidy() and dispose() free arrays at once, awaiting the event "
                       "loop lets the garbage collector do it.");
}

}  // namespace

size_t memory_limit() { return limit(); }

double new_bytes(const mx::array& array) { return new_bytes_of(array); }

void set_memory_limit(size_t bytes) {
  limit() = bytes;
  mx::set_memory_limit(bytes);  // above it MLX computes without working ahead
}

void require_memory(double bytes) {
  if (bytes > room_to_limit()) {
    refuse(bytes,
           "the limit (mx.setMemoryLimit()) is " + in_words(static_cast<double>(memory_limit())));
  }
  if (const double room = address_space(); bytes > room) {
    refuse(bytes, "the address space (ulimit -v) has room for " + in_words(room));
  }
}

void require_countable(const mx::array& result) {
  constexpr double most = std::numeric_limits<int>::max();
  const double elements = elements_of(result);
  if (elements <= most || !result.has_primitive()) return;
  if (result.primitive().stream().device != mx::Device::cpu) return;
  if (elements_of(base_of(result)) > most) return;
  std::ostringstream text;
  text << std::setprecision(15) << "the result would have " << elements
       << " elements, and on the CPU it can have at most " << most;
  throw CodedError("SHAPE", text.str());
}

void require_possible(const mx::array& result) {
  require_countable(result);
  const double bytes = bytes_of(result);
  const auto most = static_cast<double>(memory_limit());
  if (bytes > most) {
    throw CodedError("MEMORY", "the result would take " + in_words(bytes) +
                                   ", and all arrays together may take " + in_words(most) +
                                   " (mx.setMemoryLimit())");
  }
  if (array_overhead * static_cast<double>(ArrayTable::total_live()) > most) {
    refuse(array_overhead, "the limit (mx.setMemoryLimit()) is " + in_words(most));
  }
  if (bytes > largest_result) largest_result = bytes;
}

void require_memory_for(const std::vector<mx::array>& arrays) {
  double bytes = bytes_of_results(arrays);
  // Graphs are walked only when something that large may be in one.
  if (largest_result > std::min(room_to_limit(), address_space())) {
    bytes = std::max(bytes, largest_in_graph(arrays));
  }
  if (bytes > 0) require_memory(bytes);
}

}  // namespace mlx_runners
