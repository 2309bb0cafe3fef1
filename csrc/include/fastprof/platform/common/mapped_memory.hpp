// SPDX-License-Identifier: Apache-2.0
// Mapped memory by mmap(2): the calls that are the same on all systems.
#pragma once

#include <sys/mman.h>

#include <cstddef>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace platform {

// Maps zeroed memory. Null if the kernel refuses.
inline void* map_memory(size_t bytes) noexcept {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

// Maps zeroed memory for which no swap space is reserved: at `at`, replacing what is mapped there,
// or anywhere (null). Null with errno set.
inline void* map_blank(size_t bytes, void* at = nullptr) noexcept {
  void* memory =
      ::mmap(at, bytes, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (at != nullptr ? MAP_FIXED : 0), -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

// Reserves a range of addresses that no other mapping gets, without memory behind it. Null with
// errno set.
inline void* reserve_addresses(size_t bytes) noexcept {
  void* memory =
      ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

}  // namespace platform
FASTPROF_NAMESPACE_END
