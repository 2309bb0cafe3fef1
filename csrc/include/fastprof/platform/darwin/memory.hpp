// SPDX-License-Identifier: Apache-2.0
// Mapped memory on Darwin: mmap(2) alone. Its madvise(2) neither zeroes pages nor faults them in,
// it has no huge pages for such memory, and a child cannot be given zeroes in place of a copy.
#pragma once

#include <sys/mman.h>

#include <cstddef>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace platform {

// Whether a forked child finds zeroes in what wipe_in_children() was told of. Else the child must
// call discard_pages() on it.
constexpr bool kWipesInChildren = false;

// Maps zeroed memory. Null if the kernel refuses.
inline void* map_memory(size_t bytes) noexcept {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

// Maps zeroed memory, at `at` (mapped already, replaced) or anywhere. Null with errno set.
inline void* map_blank(size_t bytes, void* at = nullptr) noexcept {
  void* memory =
      ::mmap(at, bytes, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (at != nullptr ? MAP_FIXED : 0), -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

// Keeps addresses free, without memory. Null with errno set.
inline void* reserve_addresses(size_t bytes) noexcept {
  void* memory =
      ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

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
