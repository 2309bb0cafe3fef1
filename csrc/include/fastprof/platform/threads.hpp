// SPDX-License-Identifier: Apache-2.0
// Threads as the kernel knows them: ids, names, stacks, CPUs, the list of all, and a memory barrier
// on all.
#pragma once

#include "fastprof/base/config.hpp"

#if FASTPROF_DARWIN
#include "fastprof/platform/darwin/threads.hpp"
#else
#include "fastprof/platform/linux/threads.hpp"
#endif
