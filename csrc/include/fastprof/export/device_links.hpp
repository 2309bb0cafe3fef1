// SPDX-License-Identifier: Apache-2.0
// DeviceLinks: looks up the links of rows that tell of devices, and numbers the arrows between
// them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/capture/capture.hpp"

FASTPROF_NAMESPACE_BEGIN

class DeviceLinks {
 public:
  explicit DeviceLinks(const Capture& capture) : links_(capture.device_links) {
    if (links_.empty()) return;
    started_work_.resize(capture.size());
    for (const DeviceLink& link : links_)
      if (link.call >= 0) started_work_[static_cast<size_t>(link.call)] = true;
  }

  // The row's link; null if it has none.
  const DeviceLink* at(size_t row) const noexcept {
    if (FASTPROF_LIKELY(links_.empty())) return nullptr;
    const auto link =
        std::lower_bound(links_.begin(), links_.end(), row,
                         [](const DeviceLink& a, size_t wanted) { return a.row < wanted; });
    return link != links_.end() && link->row == row ? &*link : nullptr;
  }
  // Whether the row is a call that started work which is listed.
  bool started_work(size_t row) const noexcept { return !links_.empty() && started_work_[row]; }
  // Number of the arrow that begins at this row (a call) or ends there (work); 0: none.
  // Correlations are unique in a process only, rows in all processes of a capture.
  uint64_t arrow(const DeviceLink& link) const noexcept {
    if (started_work(link.row)) return uint64_t{link.row} + 1;
    return link.call < 0 ? 0 : static_cast<uint64_t>(link.call) + 1;
  }

 private:
  const std::vector<DeviceLink>& links_;
  std::vector<bool> started_work_;
};

FASTPROF_NAMESPACE_END
