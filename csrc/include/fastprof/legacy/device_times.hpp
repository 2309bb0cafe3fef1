// SPDX-License-Identifier: Apache-2.0
// DeviceTimes: turns the device events of local records into microseconds that can leave the
// process.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "fastprof/base/config.hpp"
#include "fastprof/legacy/legacy_event.hpp"

FASTPROF_NAMESPACE_BEGIN

// Give it the records in order: the first device event of a device is that device's zero. One
// thread.
class DeviceTimes {
 public:
  // Microseconds from the device's zero to the event's device event, 0 or more; what is stored (-1
  // when nothing is) for a remote event and for one without a device event. Waits for the device.
  int64_t device_us(const LegacyEvent& event) {
    if (event.is_remote || event.device_event == nullptr || event.stubs == nullptr)
      return event.device_us;
    const auto zero =
        zeros_.try_emplace(std::make_pair(event.stubs, event.device_index), event.device_event)
            .first;
    const double elapsed_us = event.stubs->elapsed_us(zero->second, event.device_event);
    return elapsed_us > 0 ? static_cast<int64_t>(elapsed_us) : 0;
  }

 private:
  std::map<std::pair<const DeviceStubs*, int32_t>, DeviceEvent> zeros_;
};

FASTPROF_NAMESPACE_END
