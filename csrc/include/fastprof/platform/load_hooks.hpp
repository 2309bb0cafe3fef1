// SPDX-License-Identifier: Apache-2.0
// Functions that run when a library is loaded and unloaded.
#pragma once

#include "fastprof/base/config.hpp"

#if FASTPROF_DARWIN
#include "fastprof/platform/darwin/load_hooks.hpp"
#else
#include "fastprof/platform/linux/load_hooks.hpp"
#endif
