// SPDX-License-Identifier: Apache-2.0
// Properties of a machine that explain why a counter cannot be opened.
#pragma once

#include <cstdint>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN

// Properties of the machine that explain a failure. Set directly by tests.
struct CounterSurroundings {
  // /proc/sys/kernel/perf_event_paranoid exists: the kernel has perf events.
  bool has_paranoid = false;
  int paranoid = 0;
  bool has_cpu_pmu = false;  // a CPU performance monitoring unit is registered
  bool virtual_machine = false;
  int seccomp = 0;  // of this thread; 2: a filter is installed
  uint64_t fd_limit = 0;
};

FASTPROF_NAMESPACE_END
