// SPDX-License-Identifier: Apache-2.0
// BackingReport: whether a session's backing file was made, and which records it lacks.
#pragma once

#include <cstdint>
#include <string>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN

// State of a session's backing file. `problem` is empty if all its records are in the file.
struct BackingReport {
  bool opened = false;           // a file was made
  std::string problem;           // why records are missing from it, with what to do
  uint64_t fallback_slabs = 0;   // slabs of 2 MB that lie in anonymous memory
  uint64_t names_lost = 0;       // sites and texts for which it had no room
  uint32_t threads_outside = 0;  // threads that may have written up to 2700 records elsewhere
};

FASTPROF_NAMESPACE_END
