// SPDX-License-Identifier: Apache-2.0
// EventPool: reusable events of CUDA or HIP, recorded on the current stream.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/cuda/event_runtime.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace cuda {

// A recorded event. Its destructor returns the event to the pool.
struct RecordedEvent {
  Event event = nullptr;
  int device = -1;
  Stream stream = nullptr;
};

// All functions may be called from any thread.
class EventPool {
 public:
  explicit EventPool(const EventRuntime& runtime) : runtime_(runtime) {}
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  const EventRuntime& runtime() const noexcept { return runtime_; }

  // Records an event on the calling thread's current device and stream. Returns null if the stream
  // is being captured into a graph, where an event has no time, or if the runtime fails, which
  // failures() counts. *device: the current device, -1 if that is not known.
  std::shared_ptr<RecordedEvent> record(int* device) noexcept;

  // The time on the device from `begin` to `end` in us. Waits for both. Throws Error, with the
  // runtime's text, if they belong to different devices or it fails.
  double elapsed_us(const RecordedEvent& begin, const RecordedEvent& end) const;

  // Numbers of record() calls so far that failed, and that were skipped because the stream was
  // being captured. Relaxed: only for reports.
  uint64_t failures() const noexcept { return __atomic_load_n(&failures_, __ATOMIC_RELAXED); }
  uint64_t captured() const noexcept { return __atomic_load_n(&captured_, __ATOMIC_RELAXED); }

 private:
  Event take(int device) noexcept;
  void give(Event event, int device) noexcept;

  const EventRuntime& runtime_;
  std::mutex lock_;
  std::vector<std::vector<Event>> free_;  // by the device on which the event was created
  uint64_t failures_ = 0, captured_ = 0;  // relaxed atomics
};

// Returns the process's pool for a vendor, created by the first call and never destroyed; null and
// the reason if its runtime is unavailable. candidates: see load_runtime().
EventPool* event_pool(const RuntimeVendor& vendor, const std::vector<std::string>& candidates,
                      std::string& problem);

}  // namespace cuda
FASTPROF_NAMESPACE_END
