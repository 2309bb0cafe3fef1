// SPDX-License-Identifier: Apache-2.0
// Mapped memory on Darwin: mmap(2) alone. Its madvise(2) neither zeroes pages nor faults them in,
// it has no huge pages for such memory, and a child cannot be given zeroes in place of a copy.
#pragma once

#include <cstddef>

#include "fastprof/base/config.hpp"
#include "fastprof/platform/common/mapped_memory.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace platform {

// Whether a forked child finds zeroes in memory passed to wipe_in_children(). If not, the child
// must call discard_pages() on that memory.
constexpr bool kWipesInChildren = false;

inline void want_huge_pages(void*, size_t) noexcept {}

inline bool wipe_in_children(void*, size_t) noexcept {
  return false;
}

// Returns pages of anonymous memory to the kernel: it reads as zeroes afterwards.
inline void discard_pages(void* memory, size_t bytes) noexcept {
  (void)map_blank(bytes, memory);
}

// Faults in all pages for writing. False: not in one call, the caller has to touch them.
inline bool populate_pages(void*, size_t) noexcept {
  return false;
}

}  // namespace platform
FASTPROF_NAMESPACE_END
