// SPDX-License-Identifier: Apache-2.0
// PerfettoIds: the ids of the tracks and arrows of one Perfetto trace. They differ between
// processes and sessions, so that their files can be concatenated.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fastprof/base/config.hpp"
#include "fastprof/capture/capture.hpp"

FASTPROF_NAMESPACE_BEGIN

class PerfettoIds {
 public:
  explicit PerfettoIds(const Capture& capture) noexcept
      : base_((static_cast<uint64_t>(capture.pid) << 40) ^
              static_cast<uint64_t>(capture.t0_ns) * 0x9E3779B97F4A7C15u),
        pid_(capture.pid) {}

  // Tracks (track_uuid).
  uint64_t process(int64_t pid) const noexcept {
    return base_ + 1 + (static_cast<uint64_t>(pid - pid_) << 44);
  }
  uint64_t lane(uint32_t lane) const noexcept { return base_ + 0x10000000 + lane; }
  // Groups the queues of a device.
  uint64_t device(int64_t device_pid) const noexcept {
    return base_ + 0x4000000000 + static_cast<uint64_t>(device_pid);
  }
  uint64_t counter(size_t counter) const noexcept { return base_ + 0x8000000000 + counter; }

  // Arrows (flow_ids), outside the ids that programs choose: from an op to its backward function,
  // and from a call to the work that it started.
  uint64_t link(uint64_t number) const noexcept { return base_ + number; }
  uint64_t launch(uint64_t number) const noexcept { return base_ + 0x100000000 + number; }

 private:
  uint64_t base_;
  int64_t pid_;
};

FASTPROF_NAMESPACE_END
