// SPDX-License-Identifier: Apache-2.0
// Reads what a proven layout says is there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

// A Memory of input_reader.hpp and op_names.hpp, as CheckedMemory is, which is for proofs.
struct DirectMemory {
  template <class T>
  FASTPROF_ALWAYS_INLINE T load(uintptr_t address) noexcept {
    T value;
    std::memcpy(&value, reinterpret_cast<const void*>(address), sizeof value);
    return value;
  }
  // Where up to `most` objects are copied to; here they are looked at in place. view: `count` of
  // them at `address`; null when they cannot be read.
  template <class T, size_t most>
  struct Room {
    FASTPROF_ALWAYS_INLINE const T* view(DirectMemory&, uintptr_t address, size_t) noexcept {
      const T* there = reinterpret_cast<const T*>(address);
      if (there == nullptr) __builtin_unreachable();
      return there;
    }
  };
};

// For callers whose last call is to be a jump: a local one would have to outlive it.
inline DirectMemory direct_memory;

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
