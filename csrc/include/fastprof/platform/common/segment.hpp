// SPDX-License-Identifier: Apache-2.0
// A segment of a loaded object.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace platform {

struct Segment {
  uintptr_t first;    // address in this process
  size_t bytes;       // in memory
  size_t file_bytes;  // of them, those that come from the file
  uint64_t linked;    // address in the file
  bool readable, writable, executable;

  bool holds(uintptr_t address) const noexcept {
    return address >= first && address - first < bytes;
  }
};

}  // namespace platform
FASTPROF_NAMESPACE_END
