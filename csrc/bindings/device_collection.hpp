// SPDX-License-Identifier: Apache-2.0
// DeviceCollection: one backend's collection for one recording, owned by a Python object.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/device_backend.hpp"
#include "fastprof/base/error.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace bindings {

// Returns a registered backend. Raises ValueError if there is none with this name. Any thread.
inline devices::DeviceBackend& backend_of(const std::string& name) {
  devices::DeviceBackend* const backend = devices::find_backend(name);
  if (backend == nullptr)
    raise<ValueError>("there is no backend for devices named " + name + ": register it first");
  return *backend;
}

// The destructor abandons an open collection. Use from one thread at a time, without the GIL.
class DeviceCollection {
 public:
  DeviceCollection(const std::string& name, const std::vector<std::string>& types, bool shares_tool)
      : backend_(&backend_of(name)) {
    number_ = backend_->begin(devices::CollectionRequest{types, shares_tool});
  }
  ~DeviceCollection() { abandon(); }
  DeviceCollection(const DeviceCollection&) = delete;
  DeviceCollection& operator=(const DeviceCollection&) = delete;

  // Ends the collection and keeps its activities for take(). Returns what failed. Does nothing when
  // called again.
  std::vector<std::string> end() {
    std::vector<std::string> problems;
    if (number_ != 0) activities_ = backend_->end(std::exchange(number_, 0), problems);
    return problems;
  }
  // Replaces the activities for take() by those completed since the begin or the previous call.
  // Returns what failed. Does nothing after end().
  std::vector<std::string> collect_so_far() {
    std::vector<std::string> problems;
    if (number_ != 0) activities_ = backend_->collect_so_far(number_, problems);
    return problems;
  }
  std::string name() const { return backend_->name(); }
  bool is_full() const { return number_ != 0 && backend_->is_full(number_); }
  void abandon() noexcept {
    if (number_ != 0) backend_->abandon(std::exchange(number_, 0));
  }
  Activities take() { return std::exchange(activities_, Activities{}); }

 private:
  devices::DeviceBackend* backend_;
  uint64_t number_ = 0;  // 0: ended
  Activities activities_;
};

}  // namespace bindings
FASTPROF_NAMESPACE_END
