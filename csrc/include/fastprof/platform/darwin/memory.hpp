// SPDX-License-Identifier: Apache-2.0
// Mapped memory on Darwin, by mmap(2) alone. Darwin's madvise(2) can neither zero pages nor fault
// them in, it has no huge pages for such memory, and it cannot give a forked child zeroes instead
// of a copy.
#pragma once

#include <cstddef>

#include "fastprof/base/config.hpp"
#include "fastprof/platform/common/mapped_memory.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace platform {

// Whether a forked child reads zeroes from memory passed to wipe_in_children(). If not, the child
// must call discard_pages() on it.
constexpr bool kWipesInChildren = false;

inline void want_huge_pages(void*, size_t) noexcept {}

inline bool wipe_in_children(void*, size_t) noexcept {
  return false;
}

// Returns pages of anonymous memory to the kernel: it reads as zeroes afterwards.
inline void discard_pages(void* memory, size_t bytes) noexcept {
  (void)map_blank(bytes, memory);
}

// Faults in all pages for writing. Returns false if the system has no call for that: the caller
// must then touch the pages.
inline bool populate_pages(void*, size_t) noexcept {
  return false;
}

}  // namespace platform
FASTPROF_NAMESPACE_END
