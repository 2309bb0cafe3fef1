// SPDX-License-Identifier: Apache-2.0
// The system's clocks on Darwin: mach time, the clock of Metal and Instruments.
#pragma once

#include <mach/mach_time.h>
#include <time.h>

#include <cstdint>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace platform {

// Converts mach time to ns: ticks * numer / denom, without overflow, rounded down. On Apple silicon
// the ratio is 125 / 3 (24 MHz), on x86-64 1 / 1.
inline uint64_t mach_to_ns(uint64_t ticks, uint32_t numer, uint32_t denom) noexcept {
  if (numer == denom) return ticks;
  return static_cast<uint64_t>(fastprof_uint128{ticks} * numer / denom);
}

// Cached result of mach_timebase_info(): numer in the high half, denom in the low one. 0: not read
// yet. Relaxed: every thread that reads it gets the same value.
inline uint64_t cached_timebase = 0;

inline uint64_t mach_to_ns(uint64_t ticks) noexcept {
  uint64_t known = __atomic_load_n(&cached_timebase, __ATOMIC_RELAXED);
  if (FASTPROF_UNLIKELY(known == 0)) {
    mach_timebase_info_data_t base{1, 1};
    if (::mach_timebase_info(&base) != KERN_SUCCESS || base.denom == 0) base = {1, 1};
    known = uint64_t{base.numer} << 32 | base.denom;
    __atomic_store_n(&cached_timebase, known, __ATOMIC_RELAXED);
  }
  return mach_to_ns(ticks, static_cast<uint32_t>(known >> 32), static_cast<uint32_t>(known));
}

// Time since boot without suspends, in ns: the clock of all captures. Python's time.monotonic_ns().
// (CLOCK_MONOTONIC of this system counts suspends and is rounded to microseconds.)
inline int64_t monotonic_ns() noexcept {
  return static_cast<int64_t>(mach_to_ns(::mach_absolute_time()));
}

// Unix time, in ns.
inline int64_t unix_ns() noexcept {
  timespec now;
  ::clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<int64_t>(now.tv_sec) * 1000000000 + now.tv_nsec;
}

// How long the machine has been suspended since boot, in ns: changes on suspend.
inline int64_t suspended_ns() noexcept {
  const uint64_t awake = ::mach_absolute_time();
  const uint64_t since_boot = ::mach_continuous_time();
  // A few ticks pass between the two readings: less than a microsecond is not a suspend.
  const auto suspended = static_cast<int64_t>(mach_to_ns(since_boot - awake));
  return suspended - suspended % 1000;
}

}  // namespace platform
FASTPROF_NAMESPACE_END
