// SPDX-License-Identifier: Apache-2.0
// Functions that run when a library is loaded and unloaded: entries of .init_array and .fini_array,
// one of each per library, however many translation units include them. Priority 101: among the
// first to run when it is loaded, and the last when it is unloaded.
#pragma once

#include "fastprof/base/config.hpp"

// Runs `function` (extern "C", hidden, void()) when the library is loaded. `entry`: a name for the
// entry. Hidden, so that linking fails if the function's definition is missing.
#define FASTPROF_ON_LOAD(entry, function)                              \
  __asm__(".ifndef " #entry                                            \
          "\n"                                                         \
          ".pushsection .init_array.00101,\"awG\",%init_array," #entry \
          ",comdat\n"                                                  \
          ".balign 8\n"                                                \
          ".weak " #entry                                              \
          "\n"                                                         \
          ".hidden " #entry                                            \
          "\n"                                                         \
          ".hidden " #function "\n" #entry                             \
          ":\n"                                                        \
          ".quad " #function                                           \
          "\n"                                                         \
          ".popsection\n"                                              \
          ".endif\n");

// The same, and runs `last` when the library is unloaded or the process ends.
#define FASTPROF_ON_LOAD_AND_UNLOAD(entry, first, last)                \
  __asm__(".ifndef " #entry                                            \
          "\n"                                                         \
          ".pushsection .init_array.00101,\"awG\",%init_array," #entry \
          ",comdat\n"                                                  \
          ".balign 8\n"                                                \
          ".weak " #entry                                              \
          "\n"                                                         \
          ".hidden " #entry "\n" #entry                                \
          ":\n"                                                        \
          ".quad " #first                                              \
          "\n"                                                         \
          ".popsection\n"                                              \
          ".pushsection .fini_array.00101,\"awG\",%fini_array," #entry \
          ",comdat\n"                                                  \
          ".balign 8\n"                                                \
          ".quad " #last                                               \
          "\n"                                                         \
          ".popsection\n"                                              \
          ".endif\n");
