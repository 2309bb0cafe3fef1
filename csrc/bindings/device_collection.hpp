// SPDX-License-Identifier: Apache-2.0
// DeviceCollection: what one backend collects for one recording, as Python holds it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/device_backend.hpp"
#include "fastprof/base/error.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace bindings {

// The destructor ends an open collection without reading it.
class DeviceCollection {
 public:
  DeviceCollection(const std::string& name, const std::vector<std::string>& types)
      : backend_(devices::find_backend(name)) {
    if (backend_ == nullptr) raise<ValueError>("there is no backend for devices named " + name);
    number_ = backend_->begin(devices::CollectionRequest{types});
  }
  ~DeviceCollection() { abandon(); }
  DeviceCollection(const DeviceCollection&) = delete;
  DeviceCollection& operator=(const DeviceCollection&) = delete;

  // Ends and keeps the activities. Returns what went wrong. No effect when called again.
  std::vector<std::string> end() {
    std::vector<std::string> problems;
    if (number_ != 0) activities_ = backend_->end(std::exchange(number_, 0), problems);
    return problems;
  }
  // What was completed since the begin or the last call, for add_activities(); returns what went
  // wrong. No effect when ended.
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
