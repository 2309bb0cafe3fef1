// SPDX-License-Identifier: Apache-2.0
// Unnamed files, pipes, reserving room in files, folders in memory.
#pragma once

#include "fastprof/base/config.hpp"

#if FASTPROF_DARWIN
#include "fastprof/platform/darwin/files.hpp"
#else
#include "fastprof/platform/linux/files.hpp"
#endif
