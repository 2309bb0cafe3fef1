// SPDX-License-Identifier: Apache-2.0
// PerfSystem: the system calls used for perf counters, as function pointers. Tests replace them,
// because most machines lack something (a PMU, the permission, the kernel option).
#pragma once

#include <cstddef>
#include <cstdint>

#include "fastprof/base/config.hpp"
#include "fastprof/platform/perf_events.hpp"

FASTPROF_NAMESPACE_BEGIN

// Return values and errno are those of the system calls.
struct PerfSystem {
  int (*open)(perf_event_attr* attributes, int group_fd);  // this thread, any CPU, close-on-exec
  ssize_t (*read)(int fd, void* buffer, size_t size_bytes);
  int (*enable)(int leader_fd);  // starts the whole group
  int (*close)(int fd);
  void* (*map)(int fd, size_t size_bytes);  // null if not possible
  void (*unmap)(void* address, size_t size_bytes);
  uint64_t (*read_pmc)(uint32_t index);  // null: unsupported or unused on this architecture
  uint64_t (*fd_limit)();                // soft limit on file descriptors
};

inline constexpr PerfSystem kPerfSystem = {
    &perf_calls::open,  //
    &perf_calls::read,  &perf_calls::enable,  &perf_calls::close,    &perf_calls::map,
    &perf_calls::unmap, perf_calls::kReadPmc, &perf_calls::fd_limit,
};

FASTPROF_NAMESPACE_END
