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

// The latest step of a counter of `hz` Hz at `ns`, in 1/256 ns: what CLOCK_MONOTONIC reads where
// the kernel derives it from such a counter.
inline uint64_t counter_step(uint64_t ns, uint64_t hz) noexcept {
  constexpr uint64_t kSecond = 1000000000;
  const uint64_t seconds = ns / kSecond;
  const uint64_t past = ns % kSecond * hz / kSecond * kSecond;  // below 2^59: hz < 2^29
  return ((seconds * kSecond + past / hz) << 8) + ((past % hz) << 8) / hz;
}

// A stamp of CLOCK_MONOTONIC in 1/256 ns, greater than every earlier stamp of this process: equal
// stamps of neighbours would make nesting ambiguous, and the clock may advance in steps of 42 ns (a
// counter of 24 MHz). Any thread; one shared word, so only for machines without a usable counter.
inline uint64_t slow_ticks(State* s) noexcept {
  const auto ns = static_cast<uint64_t>(clock_ns(CLOCK_MONOTONIC));
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

// Stamps for the cold paths: of whichever clock the process uses.
inline uint64_t ticks(State* s) noexcept {
  return FASTPROF_UNLIKELY(s->slow_clock) ? slow_ticks(s) : raw_ticks();
}
inline uint64_t ordered_ticks(State* s) noexcept {
  return FASTPROF_UNLIKELY(s->slow_clock) ? slow_ticks(s) : ordered_raw_ticks();
}

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
