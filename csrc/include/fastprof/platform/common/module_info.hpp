// SPDX-License-Identifier: Apache-2.0
// Description of a module (a loaded object) of this process, kept after the module is unloaded.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN

// An executable, shared library or the vdso, as of the refresh that found it.
struct ModuleInfo {
  std::string path;      // as the loader reports it; executable: the path of its file
  std::string build_id;  // lower-case hexadecimal; empty if it has none
  uint64_t base = 0;     // load address minus linked address
  std::vector<std::pair<uint64_t, uint64_t>> segments;  // [first, last) addresses
  std::vector<std::pair<uint64_t, uint64_t>> loads;  // (linked address, file size) of each segment
  bool main = false;
  bool vdso = false;
  bool loaded = true;  // at the last refresh

  bool contains(uint64_t address) const noexcept {
    for (const auto& segment : segments)
      if (address >= segment.first && address < segment.second) return true;
    return false;
  }
};

FASTPROF_NAMESPACE_END
