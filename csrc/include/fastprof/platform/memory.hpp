// SPDX-License-Identifier: Apache-2.0
// Mapped memory: huge pages, what a forked child sees, returning and faulting in pages.
#pragma once

#include "fastprof/base/config.hpp"

#if FASTPROF_DARWIN
#include "fastprof/platform/darwin/memory.hpp"
#else
#include "fastprof/platform/linux/memory.hpp"
#endif
