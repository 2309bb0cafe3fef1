// SPDX-License-Identifier: Apache-2.0
// Which clock the process uses: decided once, by the leader.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN

constexpr uint64_t kFastCounterHz = 500000000;  // slower counters do not tell neighbours apart

// FASTPROF_CLOCK in the environment: "slow" stamps with clock_gettime; a number of Hz from 1 to
// kFastCounterHz - 1 also rounds it down to the steps of such a counter ("24000000": what many
// aarch64 machines have). Anything else is ignored.
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

// Whether the tick counter may stamp records: invariant, and not demoted by the kernel (a clock
// source other than the counter means it failed the kernel's tests); on aarch64 also fast enough to
// tell neighbours apart.
inline bool tick_counter_usable() noexcept {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(0x80000007u, &a, &b, &c, &d) == 0 || (d & (1u << 8)) == 0) return false;
  if (std::FILE* f =
          std::fopen("/sys/devices/system/clocksource/clocksource0/current_clocksource", "re")) {
    char name[32] = {};
    const bool read = std::fgets(name, sizeof name, f) != nullptr;
    std::fclose(f);
    // kvm-clock and hyperv derive from the TSC and do not demote it.
    if (read && (std::strncmp(name, "hpet", 4) == 0 || std::strncmp(name, "acpi_pm", 7) == 0 ||
                 std::strncmp(name, "jiffies", 7) == 0 || std::strncmp(name, "refined", 7) == 0))
      return false;
  }
  return true;
#else
  uint64_t hz;
  __asm__ __volatile__("mrs %0, cntfrq_el0" : "=r"(hz));
  return hz >= kFastCounterHz;
#endif
}

FASTPROF_NAMESPACE_END
