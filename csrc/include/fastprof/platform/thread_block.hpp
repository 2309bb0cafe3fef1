// SPDX-License-Identifier: Apache-2.0
// Where a library's thread-local block lies and how it is found.
#pragma once

#include "fastprof/base/config.hpp"

#if FASTPROF_DARWIN
#include "fastprof/platform/darwin/thread_block.hpp"
#else
#include "fastprof/platform/linux/thread_block.hpp"
#endif
