// SPDX-License-Identifier: Apache-2.0
// Whether the kernel trusts the CPU's tick counter.
#pragma once

#include "fastprof/base/config.hpp"

#if FASTPROF_DARWIN
#include "fastprof/platform/darwin/tick_counter.hpp"
#else
#include "fastprof/platform/linux/tick_counter.hpp"
#endif
