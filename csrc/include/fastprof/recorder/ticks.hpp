// SPDX-License-Identifier: Apache-2.0
// Which clock stamps records: the raw tick counter, or, where it cannot be trusted, strict
// clock_gettime.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/clock.hpp"
#include "fastprof/recorder/state.hpp"

FASTPROF_NAMESPACE_BEGIN

// A stamp of CLOCK_MONOTONIC in 1/256 ns that no stamp of this process precedes or equals: ties
// between neighbours would make nesting ambiguous. Any thread; one shared word, so only for
// machines without a usable counter.
inline uint64_t slow_ticks(State* s) noexcept {
  const uint64_t now = static_cast<uint64_t>(clock_ns(CLOCK_MONOTONIC)) << 8;
  uint64_t last = __atomic_load_n(&s->last_slow_ticks, __ATOMIC_RELAXED);
  uint64_t stamp;
  do {
    stamp = now > last ? now : last + 1;
  } while (!__atomic_compare_exchange_n(&s->last_slow_ticks, &last, stamp, true, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED));
  return stamp;
}

// Stamps for the cold paths: of whichever clock the process uses.
inline uint64_t ticks(State* s) noexcept {
  return FASTPROF_UNLIKELY(s->slow_clock) ? slow_ticks(s) : raw_ticks();
}
inline uint64_t ordered_ticks(State* s) noexcept {
  return FASTPROF_UNLIKELY(s->slow_clock) ? slow_ticks(s) : ordered_raw_ticks();
}

// Whether the tick counter may stamp records: invariant, and not demoted by the kernel (a clock
// source other than the counter means it failed the kernel's tests); on aarch64 also fast enough to
// tell neighbours apart (500 MHz). FASTPROF_CLOCK=slow in the environment forces clock_gettime.
inline bool tick_counter_usable() noexcept {
  if (const char* forced = std::getenv("FASTPROF_CLOCK")) {
    if (std::strcmp(forced, "slow") == 0) return false;
  }
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
  return hz >= 500000000u;
#endif
}

FASTPROF_NAMESPACE_END
