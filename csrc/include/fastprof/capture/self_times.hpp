// SPDX-License-Identifier: Apache-2.0
// Self times: the time of each range without that of the ranges inside it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fastprof/base/column.hpp"
#include "fastprof/base/config.hpp"
#include "fastprof/capture/capture.hpp"
#include "fastprof/capture/nesting.hpp"
#include "fastprof/capture/validate.hpp"

FASTPROF_NAMESPACE_BEGIN

// Self time of every row in ns: its duration minus the durations of its direct children. 0 for
// instants, and for async ranges and ranges that ended on another thread, which overlap with what
// their threads do meanwhile (as in `summarise`). One pass. Any thread.
inline Column<int64_t> self_times_ns(const Capture& capture) {
  Column<int64_t> self_ns;
  self_ns.resize(capture.size());
  for (size_t row = 0; row < capture.size(); ++row) {
    self_ns[row] = 0;
    if (!is_nesting_range(capture, row)) continue;
    const int64_t duration = capture.end_ns[row] - capture.start_ns[row];
    self_ns[row] = duration;
    if (capture.parent[row] >= 0) self_ns[static_cast<size_t>(capture.parent[row])] -= duration;
  }
  return self_ns;
}

// The same of one row. Visits the rows inside it: use self_times_ns for all rows.
inline int64_t self_time_ns(const Capture& capture, size_t row) noexcept {
  if (!is_nesting_range(capture, row)) return 0;
  int64_t self_ns = capture.end_ns[row] - capture.start_ns[row];
  for (size_t at = row + 1; at < capture.size() && capture.track[at] == capture.track[row] &&
                            capture.start_ns[at] <= capture.end_ns[row];
       ++at)
    if (capture.parent[at] == static_cast<int32_t>(row) && is_nesting_range(capture, at))
      self_ns -= capture.end_ns[at] - capture.start_ns[at];
  return self_ns;
}

FASTPROF_NAMESPACE_END
