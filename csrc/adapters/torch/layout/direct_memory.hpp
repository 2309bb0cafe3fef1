// SPDX-License-Identifier: Apache-2.0
// DirectMemory: plain reads, for verified layouts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

// A Memory for input_reader.hpp and op_names.hpp, with the interface of CheckedMemory.
struct DirectMemory {
  template <class T>
  FASTPROF_ALWAYS_INLINE T load(uintptr_t address) noexcept {
    T value;
    std::memcpy(&value, reinterpret_cast<const void*>(address), sizeof value);
    return value;
  }
  // Buffer for up to `most` objects; here they are read in place. view() returns `count` objects at
  // `address`, or null if they cannot be read.
  template <class T, size_t most>
  struct Scratch {
    FASTPROF_ALWAYS_INLINE const T* view(DirectMemory&, uintptr_t address, size_t) noexcept {
      const T* there = reinterpret_cast<const T*>(address);
      if (there == nullptr) __builtin_unreachable();
      return there;
    }
  };
};

// For callers that end in a tail call: a local object would have to outlive it.
inline DirectMemory direct_memory;

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
