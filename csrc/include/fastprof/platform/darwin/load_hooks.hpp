// SPDX-License-Identifier: Apache-2.0
// Functions that run when a library is loaded and unloaded. A Mach-O image has no group of which
// the linker keeps one entry, so each translation unit has its own, and the functions must be
// idempotent. Priority 101: the first to run in its translation unit; the order of translation
// units is that of linking, so what runs before in static constructors of others is not recorded.
#pragma once

#include "fastprof/base/config.hpp"

// Runs `function` (extern "C", hidden, void()) when the library is loaded. `entry`: a name for the
// entry.
#define FASTPROF_ON_LOAD(entry, function)                                    \
  extern "C" __attribute__((visibility("hidden"))) void function() noexcept; \
  __attribute__((constructor(101), used)) static void entry##_loaded() {     \
    function();                                                              \
  }

// The same, and runs `last` when the library is unloaded or the process ends.
#define FASTPROF_ON_LOAD_AND_UNLOAD(entry, first, last)                   \
  FASTPROF_ON_LOAD(entry, first)                                          \
  __attribute__((destructor(101), used)) static void entry##_unloaded() { \
    last();                                                               \
  }
