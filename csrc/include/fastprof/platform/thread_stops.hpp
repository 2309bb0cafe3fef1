// SPDX-License-Identifier: Apache-2.0
// Stops other threads for some microseconds, to copy their stacks.
#pragma once

#include "fastprof/base/config.hpp"

#if FASTPROF_DARWIN
#include "fastprof/platform/darwin/thread_stops.hpp"
#else
#include "fastprof/platform/linux/thread_stops.hpp"
#endif
