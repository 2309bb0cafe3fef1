// SPDX-License-Identifier: Apache-2.0
// A memory barrier on all threads of the process.
#pragma once

#include "fastprof/base/config.hpp"

#if FASTPROF_DARWIN
#include "fastprof/platform/darwin/fence.hpp"
#else
#include "fastprof/platform/linux/fence.hpp"
#endif
