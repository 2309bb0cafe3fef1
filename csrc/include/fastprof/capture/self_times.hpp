// SPDX-License-Identifier: Apache-2.0
// Self times: the duration of each range minus that of its children.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fastprof/base/config.hpp"
#include "fastprof/capture/capture.hpp"
#include "fastprof/capture/column.hpp"
#include "fastprof/capture/nesting.hpp"
#include "fastprof/capture/validate.hpp"

FASTPROF_NAMESPACE_BEGIN

// Returns whether a row's duration is subtracted from its parent's self time: that of a nesting
// range is, except for rows that say when a task ran or was suspended. So the self time of a range
// that awaits includes its suspensions (as in `summarise`).
inline bool reduces_self_time(const Capture& capture, size_t row) noexcept {
  return is_nesting_range(capture, row) && !is_task_site(capture.sites[capture.site[row]]);
}

// Returns the self time of every row in ns: its duration minus the durations of its direct
// children, without suspensions of tasks. 0 for instants, async ranges and ranges that ended on
// another thread; the latter two overlap with other work of their threads (as in `summarise`). One
// pass. Any thread.
inline Column<int64_t> self_times_ns(const Capture& capture) {
  Column<int64_t> self_ns;
  self_ns.resize(capture.size());
  for (size_t row = 0; row < capture.size(); ++row) {
    self_ns[row] = 0;
    if (!is_nesting_range(capture, row)) continue;
    const int64_t duration = capture.end_ns[row] - capture.start_ns[row];
    self_ns[row] = duration;
    if (capture.parent[row] >= 0 && reduces_self_time(capture, row))
      self_ns[static_cast<size_t>(capture.parent[row])] -= duration;
  }
  return self_ns;
}

// Returns the self time of one row in ns. Visits the rows inside it: for all rows, use
// self_times_ns.
inline int64_t self_time_ns(const Capture& capture, size_t row) noexcept {
  if (!is_nesting_range(capture, row)) return 0;
  int64_t self_ns = capture.end_ns[row] - capture.start_ns[row];
  for (size_t at = row + 1; at < capture.size() && capture.track[at] == capture.track[row] &&
                            capture.start_ns[at] <= capture.end_ns[row];
       ++at)
    if (capture.parent[at] == static_cast<int32_t>(row) && reduces_self_time(capture, at))
      self_ns -= capture.end_ns[at] - capture.start_ns[at];
  return self_ns;
}

FASTPROF_NAMESPACE_END
