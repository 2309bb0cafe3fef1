// SPDX-License-Identifier: Apache-2.0
// DeviceBackend: collects the activities of one kind of device; and the list of the process's
// backends.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fastprof/session/activities.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace devices {

// What a collection requests. Types are those of traces: "kernel", "gpu_memcpy", "gpu_memset",
// "cuda_runtime", "cuda_driver", "cuda_sync", "overhead", "gpu_memory", "unified_memory",
// "cuda_graph", "gpu_user_annotation". A backend ignores types that it does not record.
struct CollectionRequest {
  std::vector<std::string> types;
  // Use the device's tool even if another client holds it, which must not be recording.
  bool shares_tool = false;
};

// Collector for one kind of device. Any number of collections may be open at once; each receives
// all activities from its begin to its end. All functions may be called from any thread, one call
// at a time, without the GIL and without a lock of the recorder.
class DeviceBackend {
 public:
  virtual ~DeviceBackend() = default;
  DeviceBackend() = default;
  DeviceBackend(const DeviceBackend&) = delete;
  DeviceBackend& operator=(const DeviceBackend&) = delete;

  // Returns the backend's name, that of a ProfilerActivity: "CUDA".
  virtual std::string name() const = 0;

  // Returns why activities cannot be collected in this process, and the remedy; empty if they can.
  virtual std::string problem() = 0;

  // Begins a collection and returns its number, > 0. Throws UnavailableError, with the reason, if
  // that is impossible now.
  virtual uint64_t begin(const CollectionRequest& request) = 0;

  // Waits for the device's work, ends a collection and returns its activities. Appends what failed
  // meanwhile to `problems`. Throws StateError for a number that is unknown or has ended.
  virtual Activities end(uint64_t collection, std::vector<std::string>& problems) = 0;

  // Returns the activities completed since the begin or the previous call; end() then omits them.
  // problems: as for end(). Does not wait for the device. For processes that may be killed.
  // Backends that have activities only at the end return none.
  virtual Activities collect_so_far(uint64_t collection, std::vector<std::string>& problems) {
    (void)collection, (void)problems;
    return {};
  }

  // Returns whether a collection loses activities because their memory is full, until it ends.
  // False for an unknown number.
  virtual bool is_full(uint64_t collection) {
    (void)collection;
    return false;
  }

  // Ends a collection without reading it. Does nothing for an unknown number.
  virtual void abandon(uint64_t collection) noexcept = 0;
};

// Adds a backend, which must live as long as the process. Replaces one with the same name. Any
// thread.
void register_backend(DeviceBackend* backend);
// Returns the backend with this name, or null. Any thread.
DeviceBackend* find_backend(const std::string& name);

}  // namespace devices
FASTPROF_NAMESPACE_END
