// SPDX-License-Identifier: Apache-2.0
// The hot path's clock: raw tick counter reads, which the drain converts to nanoseconds.
#pragma once

#include <cstdint>

#include "fastprof/base/config.hpp"
#include "fastprof/platform/clock.hpp"

FASTPROF_NAMESPACE_BEGIN

// Reads the tick counter. On x86-64, reads of one thread increase strictly; compared with other
// threads a read may be up to 0.25 us early. (The builtins are used because x86intrin.h, which
// wraps them, is 39,000 lines.)
FASTPROF_ALWAYS_INLINE uint64_t raw_ticks() noexcept {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  uint64_t value;
  __asm__ __volatile__("mrs %0, cntvct_el0" : "=r"(value));
  return value;
#endif
}

// Orders later counter reads of this thread after its earlier loads.
FASTPROF_ALWAYS_INLINE void order_ticks() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_lfence();
#else
  __asm__ __volatile__("isb" ::: "memory");
#endif
}

// Reads the counter after all earlier loads and stores of this thread: for stamps that are compared
// with other threads' (session start and stop, async ends, flow ends).
FASTPROF_ALWAYS_INLINE uint64_t ordered_raw_ticks() noexcept {
  order_ticks();
  return raw_ticks();
}

// One measured point of the map from ticks to nanoseconds.
struct ClockKnot {
  uint64_t ticks;
  int64_t monotonic_ns;
  int64_t bracket_ticks;  // ticks between the two counter reads around it; the error is half of it
  int64_t suspended_ns;   // platform::suspended_ns(): changes on suspend
};

// Measures a knot: the tightest of `tries` bracketed reads. About 1 us for 32 tries. Any thread.
inline ClockKnot take_clock_knot(int tries = 32) noexcept {
  ClockKnot best{0, 0, INT64_MAX, 0};
  for (int i = 0; i < tries; ++i) {
    const uint64_t before = ordered_raw_ticks();
    const int64_t ns = platform::monotonic_ns();
    const uint64_t after = ordered_raw_ticks();
    const auto bracket = static_cast<int64_t>(after - before);
    if (bracket >= 0 && bracket < best.bracket_ticks) {
      best.ticks = before + static_cast<uint64_t>(bracket) / 2;
      best.monotonic_ns = ns;
      best.bracket_ticks = bracket;
    }
  }
  best.suspended_ns = platform::suspended_ns();
  return best;
}

FASTPROF_NAMESPACE_END
