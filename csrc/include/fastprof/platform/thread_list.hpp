// SPDX-License-Identifier: Apache-2.0
// Lists the threads of this process.
#pragma once

#include "fastprof/base/config.hpp"

#if FASTPROF_DARWIN
#include "fastprof/platform/darwin/thread_list.hpp"
#else
#include "fastprof/platform/linux/thread_list.hpp"
#endif
