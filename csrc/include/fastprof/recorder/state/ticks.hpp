// SPDX-License-Identifier: Apache-2.0
// Stamps of the process's clock: the raw tick counter, or slow_ticks() where the counter is
// unreliable (clock_choice.hpp).
#pragma once

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/state/clock.hpp"
#include "fastprof/recorder/state/state.hpp"

FASTPROF_NAMESPACE_BEGIN

// Rounds `ns` down to a step of a counter of `hz` Hz; returns 1/256 ns. This is what
// CLOCK_MONOTONIC reads if the kernel derives it from such a counter.
inline uint64_t counter_step(uint64_t ns, uint64_t hz) noexcept {
  constexpr uint64_t kSecond = 1000000000;
  const uint64_t seconds = ns / kSecond;
  const uint64_t past = ns % kSecond * hz / kSecond * kSecond;  // below 2^59: hz < 2^29
  return ((seconds * kSecond + past / hz) << 8) + ((past % hz) << 8) / hz;
}

// A stamp of CLOCK_MONOTONIC in 1/256 ns, greater than every earlier stamp of this process: nesting
// is ambiguous if two stamps are equal, and the clock may advance in steps of 42 ns (24 MHz
// counter). Any thread. All threads share one word, so it is used only without a usable counter.
FASTPROF_COLD inline uint64_t slow_ticks(State* s) noexcept {
  const auto ns = static_cast<uint64_t>(platform::monotonic_ns());
  const uint64_t hz = s->simulated_counter_hz;
  const uint64_t now = FASTPROF_LIKELY(hz == 0) ? ns << 8 : counter_step(ns, hz);
  uint64_t last = __atomic_load_n(&s->last_slow_ticks, __ATOMIC_RELAXED);
  uint64_t stamp;
  do {
    stamp = now > last ? now : last + 1;
  } while (!__atomic_compare_exchange_n(&s->last_slow_ticks, &last, stamp, true, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED));
  return stamp;
}

// Stamps for the slow paths, from whichever clock the process uses.
inline uint64_t ticks(State* s) noexcept {
  return FASTPROF_UNLIKELY(s->slow_clock) ? slow_ticks(s) : raw_ticks();
}
inline uint64_t ordered_ticks(State* s) noexcept {
  return FASTPROF_UNLIKELY(s->slow_clock) ? slow_ticks(s) : ordered_raw_ticks();
}

FASTPROF_NAMESPACE_END
