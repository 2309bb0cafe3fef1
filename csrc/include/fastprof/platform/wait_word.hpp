// SPDX-License-Identifier: Apache-2.0
// Waiting for a word of memory to change.
#pragma once

#include "fastprof/base/config.hpp"

#if FASTPROF_DARWIN
#include "fastprof/platform/darwin/wait_word.hpp"
#else
#include "fastprof/platform/linux/wait_word.hpp"
#endif
