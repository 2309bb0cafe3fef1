// SPDX-License-Identifier: Apache-2.0
// Functions that run when a library is loaded and unloaded. In Mach-O, the linker cannot merge the
// entries of several translation units, so each unit has its own entry, and the functions must be
// idempotent. Priority 101 runs first within a translation unit. The order of units is that of
// linking, so ranges in static constructors of earlier units are not recorded.
#pragma once

#include "fastprof/base/config.hpp"

// Runs `function` (extern "C", hidden, void()) when the library is loaded. `entry`: a name for the
// entry.
#define FASTPROF_ON_LOAD(entry, function)                                    \
  extern "C" __attribute__((visibility("hidden"))) void function() noexcept; \
  __attribute__((constructor(101), used)) static void entry##_loaded() {     \
    function();                                                              \
  }

// As above, and also runs `last` when the library is unloaded or the process ends.
#define FASTPROF_ON_LOAD_AND_UNLOAD(entry, first, last)                   \
  FASTPROF_ON_LOAD(entry, first)                                          \
  __attribute__((destructor(101), used)) static void entry##_unloaded() { \
    last();                                                               \
  }
