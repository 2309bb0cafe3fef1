// SPDX-License-Identifier: Apache-2.0
// Sizes of symbols of loaded code, and entries of its unwind tables.
#pragma once

#include "fastprof/base/config.hpp"

#if FASTPROF_DARWIN
#include "fastprof/platform/darwin/symbols.hpp"
#else
#include "fastprof/platform/linux/symbols.hpp"
#endif
