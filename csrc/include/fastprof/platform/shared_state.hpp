// SPDX-License-Identifier: Apache-2.0
// How a library shows its State to the others of the process, and how it finds theirs.
#pragma once

#include "fastprof/base/config.hpp"

#if FASTPROF_DARWIN
#include "fastprof/platform/darwin/shared_state.hpp"
#else
#include "fastprof/platform/linux/shared_state.hpp"
#endif
