// SPDX-License-Identifier: Apache-2.0
// From ticks to Unix nanoseconds: one continuous, strictly increasing, piecewise-linear map over
// the process's knots.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/arena.hpp"
#include "fastprof/recorder/state.hpp"
#include "fastprof/recorder/ticks.hpp"

FASTPROF_NAMESPACE_BEGIN

// Takes a knot in the process's clock and keeps it. State::lock held. Thinned to half when the list
// is full, newest and oldest kept: a day at one a second stays within 2048.
inline void add_knot(State* s, int tries) noexcept {
  if (s->knots == nullptr) {
    s->knots = static_cast<KnotList*>(arena_allocate(s, sizeof(KnotList)));
    if (s->knots == nullptr) return;
    s->unix_offset_ns = clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_MONOTONIC);
  }
  KnotList* list = s->knots;
  ClockKnot knot;
  if (s->slow_clock) {
    // The clock is CLOCK_MONOTONIC itself in 1/256 ns: the map is exact.
    const uint64_t stamp = slow_ticks(s);
    knot = ClockKnot{stamp, static_cast<int64_t>(stamp >> 8), 0,
                     clock_ns(CLOCK_BOOTTIME) - clock_ns(CLOCK_MONOTONIC)};
  } else {
    knot = take_clock_knot(tries);
  }
  // Two knots closer than 1 ms say more about their brackets than about the slope: the later
  // replaces the earlier.
  if (list->count > 1 && knot.monotonic_ns - list->knots[list->count - 1].monotonic_ns < 1000000 &&
      knot.ticks > list->knots[list->count - 2].ticks &&
      knot.monotonic_ns - list->knots[list->count - 2].monotonic_ns >= 1000000) {
    // Keeping the pair (previous, new) as a segment of at least 1 ms.
    list->knots[list->count - 1] = knot;
  } else {
    if (list->count == kMaxKnots) {
      uint32_t kept = 0;
      for (uint32_t i = 0; i < kMaxKnots; i += 2) list->knots[kept++] = list->knots[i];
      list->knots[kept++] = list->knots[kMaxKnots - 1];
      list->count = kept;
    }
    list->knots[list->count++] = knot;
  }
  if (list->count >= 2) {
    const ClockKnot& a = list->knots[0];
    const ClockKnot& b = list->knots[list->count - 1];
    const int64_t ns = b.monotonic_ns - a.monotonic_ns;
    if (ns > 0 && b.ticks > a.ticks) {
      const double per_second =
          static_cast<double>(b.ticks - a.ticks) / static_cast<double>(ns) * 1e9;
      s->pending_knot_ticks = knot.ticks + static_cast<uint64_t>(per_second);
    }
  }
}

// The map, as a drain uses it. A private copy of the knots: made under State::lock, used without.
class TickConverter {
 public:
  // knots: ascending in both coordinates; fewer than two make a map of slope one nanosecond a tick.
  TickConverter(std::vector<ClockKnot> knots, int64_t offset_ns) : offset_ns_(offset_ns) {
    double nominal = 0;
    for (const ClockKnot& knot : knots) {
      if (!knots_.empty()) {
        const ClockKnot& last = knots_.back();
        if (knot.ticks <= last.ticks || knot.monotonic_ns <= last.monotonic_ns) {
          // The counter or the kernel's clock went back (migration, broken firmware): a new epoch.
          if (knot.ticks <= last.ticks && knot.monotonic_ns > last.monotonic_ns)
            breaks_.push_back(last.ticks);
          continue;
        }
        const double slope = static_cast<double>(knot.monotonic_ns - last.monotonic_ns) /
                             static_cast<double>(knot.ticks - last.ticks);
        if (nominal == 0) nominal = slope;
        const bool long_enough = knot.monotonic_ns - last.monotonic_ns > 1000000;
        const bool jumped = long_enough && (slope > nominal * 1.001 || slope < nominal * 0.999);
        const int64_t suspended = knot.suspended_ns - last.suspended_ns;
        if (jumped || suspended > 1000000 || suspended < -1000000) breaks_.push_back(knot.ticks);
      }
      knots_.push_back(knot);
    }
    if (knots_.empty()) knots_.push_back(ClockKnot{0, 0, 0, 0});
    for (size_t i = 0; i + 1 < knots_.size(); ++i) {
      const auto ticks = static_cast<double>(knots_[i + 1].ticks - knots_[i].ticks);
      const auto ns = static_cast<double>(knots_[i + 1].monotonic_ns - knots_[i].monotonic_ns);
      slopes_.push_back(static_cast<uint64_t>(ns / ticks * 4294967296.0 * 16.0));
    }
    if (slopes_.empty()) slopes_.push_back(uint64_t{1} << 36);
    for (const ClockKnot& knot : knots_) {
      const double ns_per_tick = static_cast<double>(slopes_[0]) / 4294967296.0 / 16.0;
      const auto half =
          static_cast<int64_t>(static_cast<double>(knot.bracket_ticks) * ns_per_tick / 2);
      if (half > error_ns_) error_ns_ = half;
    }
  }

  // Unix nanoseconds of a stamp. Stamps before the first or after the last knot extend the nearest
  // segment.
  int64_t to_ns(uint64_t stamp) noexcept {
    if (stamp < low_ || stamp >= high_) seek(stamp);
    const ClockKnot& base = knots_[segment_];
    const auto delta = static_cast<int64_t>(stamp - base.ticks);
    const uint64_t magnitude =
        delta < 0 ? static_cast<uint64_t>(-delta) : static_cast<uint64_t>(delta);
    const auto ns = static_cast<int64_t>(
        (static_cast<fastprof_uint128>(magnitude) * slopes_[segment_] + (uint64_t{1} << 35)) >> 36);
    return base.monotonic_ns + (delta < 0 ? -ns : ns) + offset_ns_;
  }

  // Whether the clock jumped between two stamps.
  bool discontinuous(uint64_t begin, uint64_t end) const noexcept {
    for (const uint64_t at : breaks_)
      if (begin < at && end >= at) return true;
    return false;
  }

  int64_t error_ns() const noexcept { return error_ns_; }

 private:
  void seek(uint64_t stamp) noexcept {
    // The last segment that begins at or before the stamp; the first for what is earlier.
    const auto after = std::upper_bound(
        knots_.begin() + 1, knots_.begin() + static_cast<ptrdiff_t>(slopes_.size()), stamp,
        [](uint64_t value, const ClockKnot& knot) { return value < knot.ticks; });
    const auto i = static_cast<size_t>(after - knots_.begin()) - 1;
    segment_ = i;
    low_ = i == 0 ? 0 : knots_[i].ticks;
    high_ = i + 1 < slopes_.size() ? knots_[i + 1].ticks : UINT64_MAX;
  }

  std::vector<ClockKnot> knots_;
  std::vector<uint64_t> slopes_;  // ns per tick in units of 2^-36
  std::vector<uint64_t> breaks_;
  int64_t offset_ns_;
  int64_t error_ns_ = 0;
  size_t segment_ = 0;
  uint64_t low_ = 1, high_ = 0;
};

FASTPROF_NAMESPACE_END
