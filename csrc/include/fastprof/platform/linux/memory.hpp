// SPDX-License-Identifier: Apache-2.0
// Mapped memory on Linux: mmap(2) and the advice of madvise(2), any of which a kernel may refuse.
#pragma once

#include <sys/mman.h>

#include <cstddef>

#include "fastprof/base/config.hpp"
#include "fastprof/platform/common/mapped_memory.hpp"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

FASTPROF_NAMESPACE_BEGIN
namespace platform {

// Whether a forked child finds zeroes in memory passed to wipe_in_children(). If not, the child
// must call discard_pages() on that memory.
constexpr bool kWipesInChildren = true;

inline void want_huge_pages(void* memory, size_t bytes) noexcept {
  (void)::madvise(memory, bytes, MADV_HUGEPAGE);
}

// Asks that a forked child sees zeroes. False if the kernel cannot do that (before Linux 4.14).
inline bool wipe_in_children(void* memory, size_t bytes) noexcept {
  return ::madvise(memory, bytes, MADV_WIPEONFORK) == 0;
}

// Returns pages of anonymous memory to the kernel: it reads as zeroes afterwards.
inline void discard_pages(void* memory, size_t bytes) noexcept {
  (void)::madvise(memory, bytes, MADV_DONTNEED);
}

// Faults in all pages for writing. False if the kernel cannot do it in one call (before Linux
// 5.14).
inline bool populate_pages(void* memory, size_t bytes) noexcept {
  return ::madvise(memory, bytes, MADV_POPULATE_WRITE) == 0;
}

}  // namespace platform
FASTPROF_NAMESPACE_END
