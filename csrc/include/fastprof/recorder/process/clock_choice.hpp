// SPDX-License-Identifier: Apache-2.0
// Choice of the clock that stamps records: made once per process, by the leader.
#pragma once

#include <cstdlib>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "fastprof/base/config.hpp"
#include "fastprof/platform/tick_counter.hpp"

FASTPROF_NAMESPACE_BEGIN

constexpr uint64_t kFastCounterHz = 500000000;  // slower counters give neighbours equal stamps

// FASTPROF_CLOCK in the environment. "slow": stamps come from clock_gettime. A number of Hz from 1
// to kFastCounterHz - 1: the same, rounded down to the steps of such a counter ("24000000": as many
// aarch64 machines have). Other values are ignored.
struct ForcedClock {
  bool slow = false;
  uint64_t simulated_hz = 0;
};
inline ForcedClock forced_clock() noexcept {
  const char* text = std::getenv("FASTPROF_CLOCK");
  if (text == nullptr) return {};
  if (std::strcmp(text, "slow") == 0) return {true, 0};
  if (*text < '0' || *text > '9') return {};  // strtoull takes signs and blanks
  char* end = nullptr;
  const unsigned long long hz = std::strtoull(text, &end, 10);
  if (*end != '\0' || hz == 0 || hz >= kFastCounterHz) return {};
  return {true, hz};
}

// Whether the tick counter can stamp records. x86-64: it must be invariant, and the kernel must not
// have demoted it. aarch64: at least kFastCounterHz.
inline bool tick_counter_usable() noexcept {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(0x80000007u, &a, &b, &c, &d) == 0 || (d & (1u << 8)) == 0) return false;
  return !platform::tick_counter_demoted();
#else
  uint64_t hz;
  __asm__ __volatile__("mrs %0, cntfrq_el0" : "=r"(hz));
  return hz >= kFastCounterHz;
#endif
}

FASTPROF_NAMESPACE_END
