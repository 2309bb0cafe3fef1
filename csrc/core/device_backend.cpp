// SPDX-License-Identifier: Apache-2.0
// List of the process's device backends: see device_backend.hpp.
#include "core/device_backend.hpp"

#include <mutex>

FASTPROF_NAMESPACE_BEGIN
namespace devices {
namespace {

struct Registry {
  std::mutex lock;
  std::vector<DeviceBackend*> backends;
};

Registry& registry() {
  static Registry* const only = new Registry;  // backends may be used while the process exits
  return *only;
}

}  // namespace

void register_backend(DeviceBackend* backend) {
  Registry& all = registry();
  const std::lock_guard<std::mutex> hold(all.lock);
  for (DeviceBackend*& known : all.backends)
    if (known->name() == backend->name()) {
      known = backend;
      return;
    }
  all.backends.push_back(backend);
}

DeviceBackend* find_backend(const std::string& name) {
  Registry& all = registry();
  const std::lock_guard<std::mutex> hold(all.lock);
  for (DeviceBackend* known : all.backends)
    if (known->name() == name) return known;
  return nullptr;
}

}  // namespace devices
FASTPROF_NAMESPACE_END
