// SPDX-License-Identifier: Apache-2.0
// What traces show of devices: their names, and DeviceLinks, which looks up the links of rows and
// numbers the arrows between them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/capture/capture.hpp"

FASTPROF_NAMESPACE_BEGIN

// The first track of each device, in the order of the tracks. A device is known by its pid.
inline std::vector<const TrackInfo*> devices_of(const Capture& capture) {
  std::vector<const TrackInfo*> devices;
  for (const TrackInfo& track : capture.tracks)
    if (track.is_device() &&
        std::find_if(devices.begin(), devices.end(), [&track](const TrackInfo* known) {
          return known->pid == track.pid;
        }) == devices.end())
      devices.push_back(&track);
  return devices;
}

// "GPU 0", as in Kineto's traces; "npu 0" for a device of a plug-in.
inline std::string device_name(const TrackInfo& track) {
  return (track.device_kind.empty() ? "GPU" : track.device_kind) + " " +
         std::to_string(track.device_index);
}

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

  // Whether the row is one of a device: its External id is that of a range, payload or not.
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
  std::vector<bool> started_work_;           // by row: a call that started work which is listed
};

FASTPROF_NAMESPACE_END
