// SPDX-License-Identifier: Apache-2.0
// MemoryPiece: a range of addresses and where to copy it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace platform {

struct MemoryPiece {
  uintptr_t address;
  void* to;
  size_t size_bytes;
};

}  // namespace platform
FASTPROF_NAMESPACE_END
