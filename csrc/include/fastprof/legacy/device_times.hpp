// SPDX-License-Identifier: Apache-2.0
// DeviceTimes: converts device events of local records to microseconds, which other processes can
// use.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "fastprof/base/config.hpp"
#include "fastprof/legacy/legacy_event.hpp"

FASTPROF_NAMESPACE_BEGIN

// Requires the records in order: the first device event of each device is its time zero. Not
// thread-safe.
class DeviceTimes {
 public:
  // Returns the us from the device's time zero to the device event of `event`, >= 0. For a remote
  // event, or one without a device event, returns the stored device_us (-1 if unset). Waits for
  // the device.
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
