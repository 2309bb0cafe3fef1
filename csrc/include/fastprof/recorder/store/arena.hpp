// SPDX-License-Identifier: Apache-2.0
// Arena: memory that lives as long as the process, for tracks, names and tables. Allocated by mmap,
// because an annotated malloc would recurse.
#pragma once

#include "fastprof/base/config.hpp"
#include "fastprof/platform/memory.hpp"
#include "fastprof/recorder/state/state.hpp"

FASTPROF_NAMESPACE_BEGIN

// Allocates `bytes` of zeroed memory, 16-aligned, never freed. Null if mmap fails. State::lock
// held.
inline void* arena_allocate(State* s, size_t bytes) noexcept {
  bytes = (bytes + 15) & ~size_t{15};
  constexpr size_t kBlock = 256 * 1024;
  if (bytes > kBlock / 4) return platform::map_memory(bytes);
  if (s->arena_next == nullptr || static_cast<size_t>(s->arena_end - s->arena_next) < bytes) {
    void* block = platform::map_memory(kBlock);
    if (block == nullptr) return nullptr;
    s->arena_next = static_cast<char*>(block);
    s->arena_end = s->arena_next + kBlock;
  }
  void* result = s->arena_next;
  s->arena_next += bytes;
  return result;
}

FASTPROF_NAMESPACE_END
