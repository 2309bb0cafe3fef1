// SPDX-License-Identifier: Apache-2.0
// DeviceLinks: looks up the links between calls of a device's runtime and the work that they
// started, and numbers the arrows that traces show for them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/capture/capture.hpp"

FASTPROF_NAMESPACE_BEGIN

// Looks up the links of one capture's rows, which must not change. Any thread.
class DeviceLinks {
 public:
  explicit DeviceLinks(const Capture& capture) : links_(capture.device_links) {
    if (links_.empty()) return;
    started_work_.resize(capture.size());
    for (const DeviceLink& link : links_)
      if (link.call >= 0) started_work_[static_cast<size_t>(link.call)] = true;
    for (const TrackInfo& track : capture.tracks) is_device_.push_back(track.is_device());
    track_ = &capture.track;
  }

  // Returns whether the row lies on a device. Its "External id" is then that of the range that
  // launched it, so it has args even without a payload.
  bool is_on_device(size_t row) const noexcept {
    return track_ != nullptr && is_device_[(*track_)[row]];
  }

  // The row's link; null if it has none.
  const DeviceLink* at(size_t row) const noexcept {
    if (FASTPROF_LIKELY(links_.empty())) return nullptr;
    const auto link =
        std::lower_bound(links_.begin(), links_.end(), row,
                         [](const DeviceLink& a, size_t wanted) { return a.row < wanted; });
    return link != links_.end() && link->row == row ? &*link : nullptr;
  }
  // Number of the arrow that begins at this row (a call) or ends there (work); 0: none.
  // Correlations are unique in a process only, rows in all processes of a capture.
  uint64_t arrow(const DeviceLink& link) const noexcept {
    if (started_work_[link.row]) return uint64_t{link.row} + 1;
    return link.call < 0 ? 0 : static_cast<uint64_t>(link.call) + 1;
  }

 private:
  const std::vector<DeviceLink>& links_;
  const Column<uint32_t>* track_ = nullptr;  // null: there are no links
  std::vector<bool> is_device_;              // by track
  std::vector<bool> started_work_;  // by row: whether it is a call with work in the capture
};

FASTPROF_NAMESPACE_END
