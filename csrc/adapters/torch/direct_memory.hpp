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
  // `count` objects at `address`, in place or in `room`; null when they cannot be read.
  template <class T>
  __attribute__((returns_nonnull)) FASTPROF_ALWAYS_INLINE const T* view(uintptr_t address, size_t,
                                                                        T*) noexcept {
    return reinterpret_cast<const T*>(address);
  }
};

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
