// SPDX-License-Identifier: Apache-2.0
// Names of perf events, and the kernel's numbers for them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "fastprof/base/config.hpp"
#include "fastprof/platform/perf_events.hpp"
#include "fastprof/recorder/state/detail_options.hpp"

FASTPROF_NAMESPACE_BEGIN

// A named event. Numbers from <linux/perf_event.h>; names from the perf tool's event list.
struct CounterName {
  const char* name;
  uint32_t type;
  uint64_t config;
  bool needs_kernel;  // occurs only in the kernel: always 0 if the kernel is excluded
  const char* meaning;
};

// The `config` of a PERF_TYPE_HW_CACHE event.
constexpr uint64_t cache_event(uint64_t cache, uint64_t op, uint64_t result) noexcept {
  return cache | (op << 8) | (result << 16);
}

inline constexpr CounterName kCounterNames[] = {
    {"task-clock", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK, false, "ns this thread ran"},
    {"cpu-clock", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, false,
     "ns this thread ran, by the CPU's clock"},
    {"page-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, false, "page faults"},
    {"minor-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MIN, false,
     "page faults without I/O"},
    {"major-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MAJ, false,
     "page faults with I/O"},
    {"context-switches", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES, true,
     "times switched out"},
    {"cpu-migrations", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS, true,
     "moves to another CPU"},
    {"alignment-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_ALIGNMENT_FAULTS, true,
     "unaligned accesses handled by the kernel"},
    {"emulation-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_EMULATION_FAULTS, true,
     "instructions emulated by the kernel"},
    {"cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, false, "core cycles"},
    {"instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS, false, "instructions retired"},
    {"cache-references", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_REFERENCES, false,
     "last-level cache accesses"},
    {"cache-misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES, false,
     "last-level cache misses"},
    {"branches", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_INSTRUCTIONS, false, "branches retired"},
    {"branch-misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES, false,
     "branches mispredicted"},
    {"bus-cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BUS_CYCLES, false, "bus cycles"},
    {"stalled-cycles-frontend", PERF_TYPE_HARDWARE, PERF_COUNT_HW_STALLED_CYCLES_FRONTEND, false,
     "cycles without issue"},
    {"stalled-cycles-backend", PERF_TYPE_HARDWARE, PERF_COUNT_HW_STALLED_CYCLES_BACKEND, false,
     "cycles without retirement"},
    {"ref-cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_REF_CPU_CYCLES, false,
     "cycles at the reference rate"},
    {"L1-dcache-loads", PERF_TYPE_HW_CACHE,
     cache_event(PERF_COUNT_HW_CACHE_L1D, PERF_COUNT_HW_CACHE_OP_READ,
                 PERF_COUNT_HW_CACHE_RESULT_ACCESS),
     false, "L1 data loads"},
    {"L1-dcache-load-misses", PERF_TYPE_HW_CACHE,
     cache_event(PERF_COUNT_HW_CACHE_L1D, PERF_COUNT_HW_CACHE_OP_READ,
                 PERF_COUNT_HW_CACHE_RESULT_MISS),
     false, "L1 data load misses"},
    {"L1-icache-load-misses", PERF_TYPE_HW_CACHE,
     cache_event(PERF_COUNT_HW_CACHE_L1I, PERF_COUNT_HW_CACHE_OP_READ,
                 PERF_COUNT_HW_CACHE_RESULT_MISS),
     false, "L1 instruction misses"},
    {"LLC-loads", PERF_TYPE_HW_CACHE,
     cache_event(PERF_COUNT_HW_CACHE_LL, PERF_COUNT_HW_CACHE_OP_READ,
                 PERF_COUNT_HW_CACHE_RESULT_ACCESS),
     false, "last-level loads"},
    {"LLC-load-misses", PERF_TYPE_HW_CACHE,
     cache_event(PERF_COUNT_HW_CACHE_LL, PERF_COUNT_HW_CACHE_OP_READ,
                 PERF_COUNT_HW_CACHE_RESULT_MISS),
     false, "last-level load misses"},
    {"dTLB-load-misses", PERF_TYPE_HW_CACHE,
     cache_event(PERF_COUNT_HW_CACHE_DTLB, PERF_COUNT_HW_CACHE_OP_READ,
                 PERF_COUNT_HW_CACHE_RESULT_MISS),
     false, "data TLB load misses"},
    {"iTLB-load-misses", PERF_TYPE_HW_CACHE,
     cache_event(PERF_COUNT_HW_CACHE_ITLB, PERF_COUNT_HW_CACHE_OP_READ,
                 PERF_COUNT_HW_CACHE_RESULT_MISS),
     false, "instruction TLB misses"},
};

// Looks up a counter. `name`: a name above, an alias (cpu-cycles, branch-instructions, faults, cs,
// migrations) or rHEX (a raw event of the CPU), optionally followed by :u, :k or :uk for the modes
// to count in. Without a modifier only user mode is counted, so that a name means the same at every
// privilege level; events that occur in the kernel, such as context-switches and cpu-migrations,
// are counted there in any case. Returns false if the name is unknown. Any thread.
inline bool find_counter(const std::string& name, CounterConfig* config) {
  std::string stem = name;
  uint32_t excludes = counter_exclude::kernel | counter_exclude::hypervisor;
  bool modified = false;
  const size_t colon = stem.find(':');
  if (colon != std::string::npos) {
    const std::string modes = stem.substr(colon + 1);
    stem.resize(colon);
    modified = true;
    if (modes == "u") {
      excludes = counter_exclude::kernel | counter_exclude::hypervisor;
    } else if (modes == "k") {
      excludes = counter_exclude::user | counter_exclude::hypervisor;
    } else if (modes == "uk" || modes == "ku") {
      excludes = counter_exclude::hypervisor;
    } else {
      return false;
    }
  }
  if (stem == "cpu-cycles") stem = "cycles";
  if (stem == "branch-instructions") stem = "branches";
  if (stem == "faults") stem = "page-faults";
  if (stem == "cs") stem = "context-switches";
  if (stem == "migrations") stem = "cpu-migrations";
  for (const CounterName& known : kCounterNames) {
    if (stem != known.name) continue;
    if (known.needs_kernel && !modified) excludes = counter_exclude::hypervisor;
    *config = CounterConfig{known.type, excludes, known.config};
    return true;
  }
  if (stem.size() >= 2 && stem.size() <= 17 && stem[0] == 'r') {
    uint64_t raw = 0;
    for (size_t i = 1; i < stem.size(); ++i) {
      const char c = stem[i];
      uint64_t digit = 0;
      if (c >= '0' && c <= '9') {
        digit = static_cast<uint64_t>(c - '0');
      } else if (c >= 'a' && c <= 'f') {
        digit = static_cast<uint64_t>(c - 'a' + 10);
      } else if (c >= 'A' && c <= 'F') {
        digit = static_cast<uint64_t>(c - 'A' + 10);
      } else {
        return false;
      }
      raw = raw << 4 | digit;
    }
    *config = CounterConfig{PERF_TYPE_RAW, excludes, raw};
    return true;
  }
  return false;
}

FASTPROF_NAMESPACE_END
