// SPDX-License-Identifier: Apache-2.0
// DeviceBackend: what collects the activities of one kind of device, and the list of all of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fastprof/session/activities.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace devices {

// What a collection wants. Types are those of traces: "kernel", "gpu_memcpy", "gpu_memset",
// "cuda_runtime", "cuda_driver", "cuda_sync", "overhead", "gpu_memory", "unified_memory",
// "gpu_user_annotation". A backend ignores types that it does not record.
struct CollectionRequest {
  std::vector<std::string> types;
};

// One kind of device. Any number of collections may be open at once; each gets all activities from
// its begin to its end. All functions may be called from any thread, one call at a time, without
// the GIL and without a lock of the recorder's.
class DeviceBackend {
 public:
  virtual ~DeviceBackend() = default;
  DeviceBackend() = default;
  DeviceBackend(const DeviceBackend&) = delete;
  DeviceBackend& operator=(const DeviceBackend&) = delete;

  // Name of the activity that it records: "CUDA".
  virtual std::string name() const = 0;

  // Empty if activities can be collected in this process; else the reason, and what would help.
  virtual std::string problem() = 0;

  // Begins a collection and returns its number, > 0. Throws UnavailableError if that is impossible
  // now.
  virtual uint64_t begin(const CollectionRequest& request) = 0;

  // Waits for the device's work and returns what the collection has: each collection ends once.
  // What went wrong on the way is appended to `problems`. Throws StateError for an unknown number.
  virtual Activities end(uint64_t collection, std::vector<std::string>& problems) = 0;

  // Returns the activities that were completed since the begin or the last call, which end() then
  // does not return; problems as for end(). Does not wait for the device. For processes that may be
  // killed. Backends that know their activities at the end alone return none.
  virtual Activities collect_so_far(uint64_t collection, std::vector<std::string>& problems) {
    (void)collection, (void)problems;
    return {};
  }

  // Whether a collection has lost activities because the memory for them is full. More are lost
  // until it ends. False for an unknown number.
  virtual bool is_full(uint64_t collection) {
    (void)collection;
    return false;
  }

  // Ends a collection without reading it. No effect for an unknown number.
  virtual void abandon(uint64_t collection) noexcept = 0;
};

// Adds a backend, which must live as long as the process. One with the same name is replaced.
void register_backend(DeviceBackend* backend);
// The backend with this name, or null.
DeviceBackend* find_backend(const std::string& name);

}  // namespace devices
FASTPROF_NAMESPACE_END
