// SPDX-License-Identifier: Apache-2.0
// The same loops in a separate library, loaded with dlopen(RTLD_LOCAL).
#include "scopes.hpp"

extern "C" __attribute__((visibility("default"))) const HotPathLoops* hot_path_loops() {
  return &hot_path::kLoops;
}
