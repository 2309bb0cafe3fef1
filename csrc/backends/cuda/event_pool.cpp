// SPDX-License-Identifier: Apache-2.0
// Recording and reuse of events: see event_pool.hpp.
#include "backends/cuda/event_pool.hpp"

#include <map>
#include <new>

#include "fastprof/base/error.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace cuda {

Event EventPool::take(int device) noexcept {
  {
    const std::lock_guard<std::mutex> hold(lock_);
    const auto index = static_cast<size_t>(device);
    if (index < free_.size() && !free_[index].empty()) {
      const Event event = free_[index].back();
      free_[index].pop_back();
      return event;
    }
  }
  Event event = nullptr;
  return runtime_.event_create(&event, kTimedEvent) == kSuccess ? event : nullptr;
}

void EventPool::give(Event event, int device) noexcept {
  try {
    const std::lock_guard<std::mutex> hold(lock_);
    const auto index = static_cast<size_t>(device);
    if (index >= free_.size()) free_.resize(index + 1);
    free_[index].push_back(event);
  } catch (const std::bad_alloc&) {
    runtime_.event_destroy(event);
  }
}

std::shared_ptr<RecordedEvent> EventPool::record(int* device) noexcept {
  *device = -1;
  int current = -1, capture = kCaptureNone;
  const auto failed = [this] {
    __atomic_fetch_add(&failures_, 1, __ATOMIC_RELAXED);
    return nullptr;
  };
  if (runtime_.get_device(&current) != kSuccess || current < 0) return failed();
  *device = current;
  const Stream stream = current_stream(*runtime_.vendor, current);
  if (runtime_.is_capturing(stream, &capture) != kSuccess) return failed();
  if (capture != kCaptureNone) {
    __atomic_fetch_add(&captured_, 1, __ATOMIC_RELAXED);
    return nullptr;
  }
  const Event event = take(current);
  if (event == nullptr) return failed();
  if (runtime_.event_record(event, stream) != kSuccess) {
    give(event, current);
    return failed();
  }
  try {
    const auto back = [this](RecordedEvent* recorded) {
      give(recorded->event, recorded->device);
      delete recorded;
    };
    return {new RecordedEvent{event, current, stream}, back};
  } catch (const std::bad_alloc&) {
    give(event, current);
    return failed();
  }
}

double EventPool::elapsed_us(const RecordedEvent& begin, const RecordedEvent& end) const {
  if (begin.device != end.device)
    raise<Error>(runtime_.vendor->backend + std::string(" of devices ") +
                 std::to_string(begin.device) + " and " + std::to_string(end.device) +
                 " cannot be compared");
  float ms = 0;
  for (const Event event : {begin.event, end.event})
    if (const int error = runtime_.event_synchronize(event); error != kSuccess)
      raise<Error>(runtime_.failure("EventSynchronize", error));
  if (const int error = runtime_.event_elapsed(&ms, begin.event, end.event); error != kSuccess)
    raise<Error>(runtime_.failure("EventElapsedTime", error));
  return static_cast<double>(ms) * 1000;
}

EventPool* event_pool(const RuntimeVendor& vendor, const std::vector<std::string>& candidates,
                      std::string& problem) {
  const EventRuntime* const runtime = load_runtime(vendor, candidates, problem);
  if (runtime == nullptr) return nullptr;
  // Never destroyed: results may return their events while the process exits.
  static std::mutex lock;
  static auto* const pools = new std::map<const RuntimeVendor*, EventPool>;
  const std::lock_guard<std::mutex> hold(lock);
  return &pools->try_emplace(&vendor, *runtime).first->second;
}

}  // namespace cuda
FASTPROF_NAMESPACE_END
