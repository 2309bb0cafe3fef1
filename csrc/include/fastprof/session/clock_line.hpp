// SPDX-License-Identifier: Apache-2.0
// ClockLine: converts stamps of a device's clock to the recorder's ticks, by the line through two
// readings of both clocks.
//
// CUPTI from CUDA 11.6 on asks us for the time, so that its stamps are ticks already. Older
// versions stamp with CLOCK_REALTIME, Metal with mach time, plug-ins with a clock that they name.
#pragma once

#include <cstdint>

#include "fastprof/base/config.hpp"
#include "fastprof/leader/attach.hpp"
#include "fastprof/recorder/state/ticks.hpp"

FASTPROF_NAMESPACE_BEGIN
// Both clocks at one instant.
struct ClockReading {
  uint64_t theirs = 0;
  uint64_t ticks = 0;
};

// Reads both clocks. The other clock is read between two readings of ours; of several tries, the
// narrowest counts, so that an interrupted one does not.
template <class ReadTheirs>
ClockReading read_both_clocks(ReadTheirs read_theirs) {
  constexpr int kTries = 5;
  ClockReading best;
  uint64_t width = UINT64_MAX;
  for (int i = 0; i < kTries; ++i) {
    const uint64_t before = ticks(state());
    const uint64_t theirs = read_theirs();
    const uint64_t after = ticks(state());
    if (after - before >= width) continue;
    width = after - before;
    best = {theirs, before + (after - before) / 2};
  }
  return best;
}

class ClockLine {
 public:
  // Stamps are ticks already.
  ClockLine() = default;
  // A line through two readings. If they are less than `least` of the other clock apart, the error
  // of the readings would exceed the drift, and `ticks_per_theirs` is the slope.
  ClockLine(ClockReading begin, ClockReading end, double ticks_per_theirs, uint64_t least)
      : same_(false), begin_(begin), slope_(ticks_per_theirs) {
    const uint64_t theirs = end.theirs - begin.theirs;
    if (end.theirs > begin.theirs && end.ticks > begin.ticks && theirs >= least)
      slope_ = static_cast<double>(end.ticks - begin.ticks) / static_cast<double>(theirs);
  }

  // The line of a clock that ticks `hz` times a second; readings count if a millisecond apart.
  // ticks_per_ns: of the recorder's clock.
  static ClockLine between(ClockReading begin, ClockReading end, double ticks_per_ns,
                           double hz = 1e9) {
    return ClockLine(begin, end, ticks_per_ns * 1e9 / hz, static_cast<uint64_t>(hz / 1000));
  }

  // 0 if the stamp lies before the ticks' zero or beyond their range.
  uint64_t ticks_of(uint64_t stamp) const noexcept {
    if (same_) return stamp;
    const double since = static_cast<double>(static_cast<int64_t>(stamp - begin_.theirs)) * slope_;
    constexpr double kFarthest = 4.0e18;  // fits into int64_t
    if (!(since > -static_cast<double>(begin_.ticks)) || since > kFarthest) return 0;
    return begin_.ticks + static_cast<uint64_t>(static_cast<int64_t>(since));
  }

 private:
  bool same_ = true;
  ClockReading begin_;
  double slope_ = 1;
};

// A device stamps work with one clock, and calls on threads perhaps with another.
struct ClockLines {
  ClockLine work, calls;
};

FASTPROF_NAMESPACE_END
