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
#include "fastprof/platform/clock.hpp"
#include "fastprof/recorder/state/ticks.hpp"

FASTPROF_NAMESPACE_BEGIN

// Both clocks at one instant.
struct ClockReading {
  uint64_t theirs = 0;
  uint64_t ticks = 0;
};

// Reads both clocks. The other clock is read between two readings of the recorder's. Of several
// tries the narrowest counts, so that a preempted one is ignored. read_theirs: returns a stamp.
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

// Reads CLOCK_MONOTONIC and the recorder's ticks. Any thread.
inline ClockReading read_host_clocks() {
  return read_both_clocks([] { return static_cast<uint64_t>(platform::monotonic_ns()); });
}

// The rate of the recorder's clock between two readings of read_host_clocks().
inline double ticks_per_ns(const ClockReading& begin, const ClockReading& end) noexcept {
  if (end.theirs <= begin.theirs || end.ticks <= begin.ticks) return 1;
  return static_cast<double>(end.ticks - begin.ticks) /
         static_cast<double>(end.theirs - begin.theirs);
}

// The map from a device's stamps to ticks. Any thread.
class ClockLine {
 public:
  // The identity: stamps are ticks already.
  ClockLine() = default;
  // The line through two readings. If they are closer than `least` units of the other clock, the
  // error of the readings exceeds the drift, and the slope is `ticks_per_theirs` instead.
  ClockLine(ClockReading begin, ClockReading end, double ticks_per_theirs, uint64_t least)
      : same_(false), begin_(begin), slope_(ticks_per_theirs) {
    const uint64_t theirs = end.theirs - begin.theirs;
    if (end.theirs > begin.theirs && end.ticks > begin.ticks && theirs >= least)
      slope_ = static_cast<double>(end.ticks - begin.ticks) / static_cast<double>(theirs);
  }

  // The line of a clock of `hz` ticks per second, through readings at least a millisecond apart.
  // ticks_per_ns: of the recorder's clock, the slope for closer readings.
  static ClockLine between(ClockReading begin, ClockReading end, double ticks_per_ns,
                           double hz = 1e9) {
    return ClockLine(begin, end, ticks_per_ns * 1e9 / hz, static_cast<uint64_t>(hz / 1000));
  }

  // Converts a stamp to ticks; 0 if the result is not positive or out of range.
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

// The clocks of a device: that of work on its queues, and that of calls on threads.
struct ClockLines {
  ClockLine work, calls;
};

FASTPROF_NAMESPACE_END
