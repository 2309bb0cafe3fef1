// SPDX-License-Identifier: Apache-2.0
// FileSlab: header of a slab that lies in a backing file (recorder/store/backing_file.hpp). It adds
// to Slab what a reader needs once the process is gone: the names of the threads that wrote the
// chunks.
#pragma once

#include <cstring>

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/state/chunk.hpp"
#include "fastprof/recorder/state/state.hpp"

FASTPROF_NAMESPACE_BEGIN

// Describes the thread that writes a chunk. Changed under State::lock.
struct ChunkLabel {
  uint32_t track_id;
  uint32_t is_signal;  // the track of a thread's signal handlers
  uint32_t name_length;
  uint32_t reserved0;
  uint64_t sessions;  // bit per session slot that was live when the chunk was handed out
  uint64_t reserved1;
  char name[64];  // the thread's
};

// At the first byte of a slab in a backing file; Slab::header_bytes is sizeof(FileSlab).
struct FileSlab {
  Slab slab;
  uint32_t generation;  // which of the process's backing files, from 1
  uint32_t segment;     // position in the file, in units of kSlabBytes
  uint64_t address;     // where the process mapped it
  FileSlab* next;       // BackingFile::slabs
  ChunkLabel labels[kChunksPerSlab];
};
static_assert(sizeof(ChunkLabel) == 96 && sizeof(FileSlab) == 96 + 96 * kChunksPerSlab,
              "the layout of backing files is ABI");
static_assert(sizeof(FileSlab) <= kChunkBytes, "the header of a slab takes one chunk's place");

// Whether the slab lies in a backing file. Its first page must exist.
inline bool is_file_slab(const Slab* slab) noexcept {
  return slab->header_bytes >= sizeof(FileSlab);
}
inline FileSlab* file_slab_of(const void* address) noexcept {
  return reinterpret_cast<FileSlab*>(slab_of(address));
}

// Writes the track's name into its current chunk's slab, if that lies in a file. State::lock held.
inline void label_chunk(const State* s, const Track* track) noexcept {
  const Chunk* chunk = track->newest;
  if (chunk == nullptr || !is_file_slab(slab_of(chunk))) return;
  const auto index = (reinterpret_cast<uintptr_t>(chunk) & (kSlabBytes - 1)) / kChunkBytes - 1;
  ChunkLabel& label = file_slab_of(chunk)->labels[index];
  label.track_id = track->id;
  label.is_signal = track->is_signal;
  label.name_length = 0;  // a reader of a torn name sees none
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  std::memcpy(label.name, track->name, sizeof label.name);
  label.sessions = s->session_bits;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  label.name_length = track->name_length;
}

FASTPROF_NAMESPACE_END
