// SPDX-License-Identifier: Apache-2.0
// The objects (program, libraries) that are loaded in this process.
#pragma once

#include "fastprof/base/config.hpp"

#if FASTPROF_DARWIN
#include "fastprof/platform/darwin/images.hpp"
#else
#include "fastprof/platform/linux/images.hpp"
#endif
