// SPDX-License-Identifier: Apache-2.0
// ChunkBuffer: private memory for one chunk of records that is read from a file.
#pragma once

#include <cstdlib>
#include <memory>
#include <new>

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/state/chunk.hpp"

FASTPROF_NAMESPACE_BEGIN

struct FreeChunk {
  void operator()(Chunk* chunk) const noexcept { std::free(chunk); }
};
using ChunkBuffer = std::unique_ptr<Chunk, FreeChunk>;

// Allocates a chunk, aligned to its size as chunk_of() requires, with a zeroed header. Null if
// memory is short.
inline ChunkBuffer make_chunk_buffer() noexcept {
  void* memory = std::aligned_alloc(kChunkBytes, kChunkBytes);
  return ChunkBuffer(memory != nullptr ? new (memory) Chunk{} : nullptr);
}

FASTPROF_NAMESPACE_END
