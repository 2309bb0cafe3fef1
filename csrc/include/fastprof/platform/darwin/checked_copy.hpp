// SPDX-License-Identifier: Apache-2.0
// Checked copies by vm_read_overwrite, which fails where a load would fault.
#pragma once

#include <mach/mach.h>

#include <cstddef>

#include "fastprof/base/config.hpp"
#include "fastprof/platform/common/checked_copy.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace platform {

// Copies pieces in their order and returns how many were copied before the first unmapped one.
inline size_t copy_pieces(int, const MemoryPiece* pieces, size_t count) noexcept {
  for (size_t i = 0; i < count; ++i) {
    vm_size_t copied = 0;
    if (::vm_read_overwrite(mach_task_self(), pieces[i].address, pieces[i].size_bytes,
                            reinterpret_cast<vm_address_t>(pieces[i].to),
                            &copied) != KERN_SUCCESS ||
        copied != pieces[i].size_bytes)
      return i;
  }
  return count;
}

// Returns whether the system permits checked copies.
inline bool can_copy_pieces() noexcept {
  return true;
}

}  // namespace platform
FASTPROF_NAMESPACE_END
