// SPDX-License-Identifier: Apache-2.0
// Gaps: intervals in which a thread's calls were not traced, because something had replaced its
// profile function (CPython <= 3.11). GIL for all functions.
#pragma once

#include <Python.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {

struct TracingGap {
  uint64_t state_id;     // PyThreadState::id of the thread
  unsigned long thread;  // its identifier in Python
  int64_t from_ns;       // CLOCK_MONOTONIC
  int64_t to_ns;         // 0: not over
  PyObject* stack;       // the thread's profile object, for the time after the gap; owned, or null
};

class TracingGaps {
 public:
  // Returns false without memory.
  bool begin(const PyThreadState* thread, int64_t now_ns, PyObject* stack) noexcept {
    try {
      gaps_.push_back({thread->id, thread->thread_id, now_ns, 0, stack});
      return true;
    } catch (const std::bad_alloc&) {
      return false;
    }
  }

  // The gap of a thread that is not over; null if there is none.
  TracingGap* open_gap(const PyThreadState* thread) noexcept {
    for (TracingGap& gap : gaps_)
      if (gap.to_ns == 0 && gap.state_id == thread->id) return &gap;
    return nullptr;
  }

  // Ends a gap. not_before_ns: one that began later is forgotten: no call was missed.
  void end(TracingGap* gap, int64_t now_ns, int64_t not_before_ns) noexcept {
    gap->to_ns = now_ns;
    const bool empty = gap->from_ns >= not_before_ns;
    if (!empty && gaps_.size() > kMost) ++more_;
    if (empty || gaps_.size() > kMost) gaps_.erase(gaps_.begin() + (gap - gaps_.data()));
  }

  // Describes the gaps since `since_ns`, in seconds after it; empty if there are none.
  std::string text(int64_t since_ns) const {
    std::string all;
    for (const TracingGap& gap : gaps_) {
      if (gap.to_ns != 0 && gap.to_ns < since_ns) continue;
      char times[96];
      const double from = static_cast<double>(std::max(gap.from_ns - since_ns, int64_t{0})) / 1e9;
      const double to = static_cast<double>(gap.to_ns - since_ns) / 1e9;
      if (gap.to_ns == 0)
        std::snprintf(times, sizeof times, "from %.6f s on", from);
      else
        std::snprintf(times, sizeof times, "from %.6f to %.6f s", from, to);
      if (!all.empty()) all += ", ";
      all += "thread " + std::to_string(gap.thread) + " " + times;
    }
    if (more_ != 0) all += ", and " + std::to_string(more_) + " more times";
    return all;
  }

  // Forgets all; returns the owned stacks of those that were not over.
  std::vector<TracingGap> take() noexcept {
    more_ = 0;
    return std::exchange(gaps_, {});
  }

 private:
  static constexpr size_t kMost = 16;

  std::vector<TracingGap> gaps_;
  uint64_t more_ = 0;  // that are over, and not in gaps_
};

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
