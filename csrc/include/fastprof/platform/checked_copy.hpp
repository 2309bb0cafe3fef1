// SPDX-License-Identifier: Apache-2.0
// Copies memory of this process that may be unmapped at any moment, without a fault.
#pragma once

#include "fastprof/base/config.hpp"

#if FASTPROF_DARWIN
#include "fastprof/platform/darwin/checked_copy.hpp"
#else
#include "fastprof/platform/linux/checked_copy.hpp"
#endif
