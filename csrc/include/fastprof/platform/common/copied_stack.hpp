// SPDX-License-Identifier: Apache-2.0
// Registers and stack bytes of another thread, from which its callers are found.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace platform {

struct StackRegisters {
  uintptr_t pc;  // of the instruction that is executed next
  uintptr_t sp;
  uintptr_t fp;    // frame pointer; 0 if `has_fp` is false
  uintptr_t link;  // aarch64: return address of a function that has not saved it; else 0
  bool has_fp;
};

// The bytes at [at.sp, at.sp + size_bytes).
struct CopiedStack {
  StackRegisters at;
  const char* bytes;
  size_t size_bytes;
};

// How much of a thread's stack is copied.
struct StackExtent {
  uintptr_t high = 0;                    // where its outermost frame ends; 0: unknown
  size_t size_bytes = size_t{16} << 10;  // while that is unknown

  size_t above(uintptr_t sp, size_t capacity) const noexcept {
    const size_t size = high > sp && high - sp <= capacity ? high - sp : size_bytes;
    return size < capacity ? size : capacity;
  }

  // After a walk: `end` of the outermost frame, 0 if it was not reached; `cut`: because the copy
  // ended.
  void update(uintptr_t end, bool cut, size_t capacity) noexcept {
    if (end != 0) {
      high = end;
    } else if (cut) {
      high = 0;
      if (size_bytes < capacity) size_bytes *= 2;
    }
  }
};

}  // namespace platform
FASTPROF_NAMESPACE_END
