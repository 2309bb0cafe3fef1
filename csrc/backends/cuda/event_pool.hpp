// SPDX-License-Identifier: Apache-2.0
// EventPool: reusable CUDA events, recorded on the current stream.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/cuda/cudart_library.hpp"

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
  explicit EventPool(const CudartLibrary& library) : library_(library) {}
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  const CudartLibrary& library() const noexcept { return library_; }

  // Records an event on the calling thread's current device and stream. Returns null if the stream
  // is being captured into a graph, where an event has no time, or if CUDA fails, which failures()
  // counts. *device: the current device, -1 if that is not known.
  std::shared_ptr<RecordedEvent> record(int* device) noexcept;

  // The time on the device from `begin` to `end` in us. Waits for both. Throws Error, with CUDA's
  // text, if they belong to different devices or CUDA fails.
  double elapsed_us(const RecordedEvent& begin, const RecordedEvent& end) const;

  // Numbers of record() calls so far that failed, and that were skipped because the stream was
  // being captured. Relaxed: only for reports.
  uint64_t failures() const noexcept { return __atomic_load_n(&failures_, __ATOMIC_RELAXED); }
  uint64_t captured() const noexcept { return __atomic_load_n(&captured_, __ATOMIC_RELAXED); }

 private:
  Event take(int device) noexcept;
  void give(Event event, int device) noexcept;

  const CudartLibrary& library_;
  std::mutex lock_;
  std::vector<std::vector<Event>> free_;  // by device: an event belongs to the one it was made for
  uint64_t failures_ = 0, captured_ = 0;  // relaxed atomics
};

// The process's only pool, made by the first call, never destroyed; null and the reason if there is
// no libcudart. candidates: see load_cudart().
EventPool* event_pool(const std::vector<std::string>& candidates, std::string& problem);

}  // namespace cuda
FASTPROF_NAMESPACE_END
