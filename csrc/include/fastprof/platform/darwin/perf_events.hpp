// SPDX-License-Identifier: Apache-2.0
// Performance counters on Darwin: programs cannot read any. Events have the numbers of Linux, so
// that an unknown name and a counter that this system lacks give different errors; opening any
// event fails with ENOSYS.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "fastprof/base/config.hpp"
#include "fastprof/platform/common/counter_surroundings.hpp"

FASTPROF_NAMESPACE_BEGIN

// Kinds of events, and the events, by the numbers of Linux.
enum : uint32_t {
  PERF_TYPE_HARDWARE = 0,
  PERF_TYPE_SOFTWARE = 1,
  PERF_TYPE_HW_CACHE = 3,
  PERF_TYPE_RAW = 4,
};
enum : uint64_t {
  PERF_COUNT_HW_CPU_CYCLES = 0,
  PERF_COUNT_HW_INSTRUCTIONS = 1,
  PERF_COUNT_HW_CACHE_REFERENCES = 2,
  PERF_COUNT_HW_CACHE_MISSES = 3,
  PERF_COUNT_HW_BRANCH_INSTRUCTIONS = 4,
  PERF_COUNT_HW_BRANCH_MISSES = 5,
  PERF_COUNT_HW_BUS_CYCLES = 6,
  PERF_COUNT_HW_STALLED_CYCLES_FRONTEND = 7,
  PERF_COUNT_HW_STALLED_CYCLES_BACKEND = 8,
  PERF_COUNT_HW_REF_CPU_CYCLES = 9,
};
enum : uint64_t {
  PERF_COUNT_SW_CPU_CLOCK = 0,
  PERF_COUNT_SW_TASK_CLOCK = 1,
  PERF_COUNT_SW_PAGE_FAULTS = 2,
  PERF_COUNT_SW_CONTEXT_SWITCHES = 3,
  PERF_COUNT_SW_CPU_MIGRATIONS = 4,
  PERF_COUNT_SW_PAGE_FAULTS_MIN = 5,
  PERF_COUNT_SW_PAGE_FAULTS_MAJ = 6,
  PERF_COUNT_SW_ALIGNMENT_FAULTS = 7,
  PERF_COUNT_SW_EMULATION_FAULTS = 8,
};
enum : uint64_t {
  PERF_COUNT_HW_CACHE_L1D = 0,
  PERF_COUNT_HW_CACHE_L1I = 1,
  PERF_COUNT_HW_CACHE_LL = 2,
  PERF_COUNT_HW_CACHE_DTLB = 3,
  PERF_COUNT_HW_CACHE_ITLB = 4,
  PERF_COUNT_HW_CACHE_OP_READ = 0,
  PERF_COUNT_HW_CACHE_RESULT_ACCESS = 0,
  PERF_COUNT_HW_CACHE_RESULT_MISS = 1,
};
enum : uint64_t {
  PERF_FORMAT_TOTAL_TIME_ENABLED = 1,
  PERF_FORMAT_TOTAL_TIME_RUNNING = 2,
  PERF_FORMAT_GROUP = 8,
};

// Attributes of an event: only those that fastprof sets.
struct perf_event_attr {
  uint32_t type;
  uint32_t size;
  uint64_t config;
  uint64_t read_format;
  uint64_t disabled : 1, exclude_user : 1, exclude_kernel : 1, exclude_hv : 1;
};

// The page that a system shares with the readers of an event; only the fields that fastprof reads.
struct perf_event_mmap_page {
  uint32_t lock;
  uint32_t index;
  int64_t offset;
  uint64_t time_enabled;
  uint64_t time_running;
  uint64_t cap_user_rdpmc;
  uint16_t pmc_width;
};

namespace perf_calls {

inline int fail() {
  errno = ENOSYS;
  return -1;
}
inline int open(perf_event_attr*, int) {
  return fail();
}
inline ssize_t read(int, void*, size_t) {
  return fail();
}
inline int enable(int) {
  return fail();
}
inline int close(int) {
  return fail();
}
inline void* map(int, size_t) {
  return nullptr;
}
inline void unmap(void*, size_t) {}
// Reads a counter of the CPU without a system call; null where that is unsupported or unused.
using ReadPmc = uint64_t (*)(uint32_t index);
inline constexpr ReadPmc kReadPmc = nullptr;
inline uint64_t fd_limit() {
  rlimit limit;
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : UINT64_MAX;
}

}  // namespace perf_calls

// Reads the properties of this machine: only the limit applies.
inline CounterSurroundings read_counter_surroundings() {
  CounterSurroundings facts;
  facts.fd_limit = perf_calls::fd_limit();
  return facts;
}

FASTPROF_NAMESPACE_END
