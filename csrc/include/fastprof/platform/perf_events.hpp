// SPDX-License-Identifier: Apache-2.0
// Counters of the kernel and the CPU.
#pragma once

#include "fastprof/base/config.hpp"

#if FASTPROF_DARWIN
#include "fastprof/platform/darwin/perf_events.hpp"
#else
#include "fastprof/platform/linux/perf_events.hpp"
#endif
