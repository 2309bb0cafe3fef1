// SPDX-License-Identifier: Apache-2.0
// ClockFit: converts stamps of a device's clock, in ns, to the recorder's ticks.
//
// Two pairs of readings, at the begin and end of a collection, give the line between the clocks.
// CUPTI from CUDA 11.6 on asks us for the time, so that its stamps are ticks already. Older
// versions stamp with CLOCK_REALTIME, Metal with mach time.
#pragma once

#include <cstdint>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
struct ClockPair {
  uint64_t theirs = 0;
  uint64_t ticks = 0;
};

class ClockFit {
 public:
  // Stamps are ticks. ticks_per_ns: of the recorder's clock.
  explicit ClockFit(double ticks_per_ns) : same_(true), ticks_per_ns_(ticks_per_ns) {}
  ClockFit(ClockPair begin, ClockPair end, double ticks_per_ns)
      : begin_(begin), ticks_per_ns_(ticks_per_ns) {
    const uint64_t elapsed = end.theirs - begin.theirs;
    // Less than a millisecond apart, the error of the readings would be more than the drift.
    slope_ = elapsed > 1000000
                 ? static_cast<double>(end.ticks - begin.ticks) / static_cast<double>(elapsed)
                 : ticks_per_ns;
  }

  uint64_t ticks_of(uint64_t stamp) const noexcept {
    if (same_) return stamp;
    const double since = static_cast<double>(static_cast<int64_t>(stamp - begin_.theirs));
    return begin_.ticks + static_cast<uint64_t>(static_cast<int64_t>(since * slope_));
  }
  double ns_of_ticks(uint64_t ticks) const noexcept {
    return static_cast<double>(ticks) / ticks_per_ns_;
  }

 private:
  bool same_ = false;
  ClockPair begin_;
  double slope_ = 1;
  double ticks_per_ns_;
};

FASTPROF_NAMESPACE_END
