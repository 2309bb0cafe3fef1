// SPDX-License-Identifier: Apache-2.0
// The system's clocks on Linux: clock_gettime(2).
#pragma once

#include <time.h>

#include <cstdint>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN

// Reads a clock of the kernel, in ns.
inline int64_t clock_ns(clockid_t id) noexcept {
  timespec now;
  ::clock_gettime(id, &now);
  return static_cast<int64_t>(now.tv_sec) * 1000000000 + now.tv_nsec;
}

namespace platform {

// Time since boot without suspends, in ns: the clock of all captures. Python's time.monotonic_ns().
inline int64_t monotonic_ns() noexcept {
  return clock_ns(CLOCK_MONOTONIC);
}

// Unix time, in ns.
inline int64_t unix_ns() noexcept {
  return clock_ns(CLOCK_REALTIME);
}

// How long the machine has been suspended since boot, in ns: changes on suspend.
inline int64_t suspended_ns() noexcept {
  return clock_ns(CLOCK_BOOTTIME) - clock_ns(CLOCK_MONOTONIC);
}

}  // namespace platform
FASTPROF_NAMESPACE_END
