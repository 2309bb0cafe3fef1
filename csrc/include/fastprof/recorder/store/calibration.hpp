// SPDX-License-Identifier: Apache-2.0
// Clock calibration: the map from ticks to Unix nanoseconds. It is continuous, strictly increasing
// and piecewise linear between the process's knots.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/state/state.hpp"
#include "fastprof/recorder/state/ticks.hpp"
#include "fastprof/recorder/store/arena.hpp"
#include "fastprof/recorder/store/backing_file.hpp"

FASTPROF_NAMESPACE_BEGIN

// Writes the process's knots to the backing file, whose reader has no other map from ticks to time.
// If the valid bank is a prefix of the list, the new knots are appended to it; otherwise the list
// is written to the other bank. State::lock held, a file in force.
inline void copy_knots(State* s) noexcept {
  BackingHeader* header = s->backing_file->header;
  auto* banks = reinterpret_cast<KnotBank*>(reinterpret_cast<char*>(header) + kKnotBanksAt);
  header->unix_offset_ns = s->unix_offset_ns;
  if (s->knots == nullptr) return;
  const KnotList& list = *s->knots;
  const uint32_t shown = list.count < kFileKnots ? list.count : kFileKnots;
  const uint32_t first = list.count - shown;  // the newest ones
  KnotBank& valid = banks[header->knot_bank];
  bool prefix = first == 0 && valid.count <= shown;
  if (prefix && valid.count != 0)
    prefix = valid.knots[valid.count - 1].ticks == list.knots[valid.count - 1].ticks;
  KnotBank& bank = prefix ? valid : banks[1 - header->knot_bank];
  for (uint64_t i = prefix ? valid.count : 0; i < shown; ++i) bank.knots[i] = list.knots[first + i];
  store_release(&bank.count, uint64_t{shown});
  if (!prefix) store_release(&header->knot_bank, 1 - header->knot_bank);
}

// Measures a knot with the process's clock and appends it. A full list is thinned to half its
// knots; the oldest and newest stay. One knot a second for a day fits in the 2048. State::lock
// held.
inline void add_knot(State* s, int tries) noexcept {
  if (s->knots == nullptr) {
    s->knots = static_cast<KnotList*>(arena_allocate(s, sizeof(KnotList)));
    if (s->knots == nullptr) return;
    s->unix_offset_ns = platform::unix_ns() - platform::monotonic_ns();
  }
  KnotList* list = s->knots;
  ClockKnot knot;
  if (s->slow_clock) {
    // The clock is CLOCK_MONOTONIC itself in 1/256 ns: the map is exact.
    const uint64_t stamp = slow_ticks(s);
    knot = ClockKnot{stamp, static_cast<int64_t>(stamp >> 8), 0, platform::suspended_ns()};
  } else {
    knot = take_clock_knot(tries);
  }
  // Over less than 1 ms, the measurement error of two knots dominates the slope, so the later knot
  // replaces the earlier.
  if (list->count > 1 && knot.monotonic_ns - list->knots[list->count - 1].monotonic_ns < 1000000 &&
      knot.ticks > list->knots[list->count - 2].ticks &&
      knot.monotonic_ns - list->knots[list->count - 2].monotonic_ns >= 1000000) {
    // (previous, new) then is a segment of at least 1 ms.
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
      // A process that writes to a file may be killed at any time, so its first second has more
      // knots: 2 ms apart at least, then at four times the time so far.
      double wait_s = 1;
      if (file_in_force(s) && ns < 250000000)
        wait_s = ns < 500000 ? 0.002 : static_cast<double>(ns) * 4e-9;
      s->pending_knot_ticks = knot.ticks + static_cast<uint64_t>(per_second * wait_s);
    }
  }
  if (file_in_force(s)) copy_knots(s);
}

// Converts ticks to Unix nanoseconds. Has a private copy of the knots, made under State::lock, so
// that conversion needs no lock. Not thread-safe.
class TickConverter {
 public:
  // knots: ascending in both coordinates; with fewer than two, the slope is 1 ns per tick.
  TickConverter(std::vector<ClockKnot> knots, int64_t offset_ns) : offset_ns_(offset_ns) {
    double nominal = 0;
    for (const ClockKnot& knot : knots) {
      if (!knots_.empty()) {
        const ClockKnot& last = knots_.back();
        if (knot.ticks <= last.ticks || knot.monotonic_ns <= last.monotonic_ns) {
          // The tick counter or the kernel's clock went back (migration, broken firmware): a break.
          if (knot.ticks <= last.ticks && knot.monotonic_ns > last.monotonic_ns)
            breaks_.push_back(last.ticks);
          continue;
        }
        const double slope = static_cast<double>(knot.monotonic_ns - last.monotonic_ns) /
                             static_cast<double>(knot.ticks - last.ticks);
        // Over less than 1 ms the slope is inexact: it is neither tested nor used as the norm.
        const bool long_enough = knot.monotonic_ns - last.monotonic_ns > 1000000;
        if (nominal == 0 && long_enough) nominal = slope;
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

  // Converts a stamp to Unix nanoseconds. Outside the knots, the nearest segment is extrapolated.
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

  // The time between two stamps, begin <= end; to_ns(end) - to_ns(begin), up to rounding.
  FASTPROF_ALWAYS_INLINE int64_t duration_ns(uint64_t begin, uint64_t end) noexcept {
    if (FASTPROF_UNLIKELY(begin < low_ || end >= high_)) return to_ns(end) - to_ns(begin);
    return static_cast<int64_t>(
        (static_cast<fastprof_uint128>(end - begin) * slopes_[segment_] + (uint64_t{1} << 35)) >>
        36);
  }

  // Whether the clock was discontinuous between two stamps: suspended, stepped back, or its rate
  // changed by more than 0.1 %.
  bool discontinuous(uint64_t begin, uint64_t end) const noexcept {
    for (const uint64_t at : breaks_)
      if (begin < at && end >= at) return true;
    return false;
  }

  // Largest measurement error of a knot, in nanoseconds.
  int64_t error_ns() const noexcept { return error_ns_; }

 private:
  void seek(uint64_t stamp) noexcept {
    // The last segment that begins at or before the stamp; the first one for earlier stamps.
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
