// SPDX-License-Identifier: Apache-2.0
// The system's clocks.
#pragma once

#include "fastprof/base/config.hpp"

#if FASTPROF_DARWIN
#include "fastprof/platform/darwin/clock.hpp"
#else
#include "fastprof/platform/linux/clock.hpp"
#endif
