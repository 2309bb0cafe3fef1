// SPDX-License-Identifier: Apache-2.0
// Chunks and slabs: the memory that records live in, self-describing so that a crash dump can be
// read without us.
#pragma once

#include <cstdint>

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/clock.hpp"
#include "fastprof/recorder/slot.hpp"

FASTPROF_NAMESPACE_BEGIN

struct Track;

constexpr size_t kChunkBytes = 64 * 1024;
constexpr size_t kSlabBytes = 2 * 1024 * 1024;
constexpr size_t kChunksPerSlab =
    kSlabBytes / kChunkBytes - 1;  // the first 64 KB describe the slab
constexpr unsigned kMaxSessions = 64;

constexpr uint32_t kChunkMagic = 0x46504331;  // "1CPF"
constexpr uint32_t kSlabMagic = 0x46505331;

// Where a chunk is. Changed under State::lock only.
enum class ChunkPlace : uint32_t { free = 0, current = 1, full = 2, quarantined = 3 };

// Header of a chunk, at its first byte; the chunk is aligned to its size, so a slot's chunk is
// found by masking.
struct Chunk {
  uint32_t magic;
  uint16_t abi_major;
  uint16_t header_bytes;
  uint32_t pid;
  uint32_t tid;
  uint32_t track_id;
  uint32_t gen;  // incremented (acq_rel RMW) at each hand-out; readers re-read it after copying
  uint64_t sequence;    // of this track
  uint64_t open_ticks;  // when it was handed to this track: a slot is valid iff begin >= open_ticks
  uint64_t close_ticks;  // when its thread moved on; UINT64_MAX while current
  uint32_t used_bytes;   // slots written when it was closed, in bytes behind the header
  ChunkPlace place;
  uint64_t pins;     // bit per session slot that still has to read it (State::lock)
  uint64_t counted;  // bit per session slot that is done with it: its records were read, or counted
                     // as dropped
  Chunk* next;       // in its track's list (oldest first) or in the free list
  Track* owner;
  uint32_t
      quiet_gen;  // == gen once a drain has seen that no range of this full chunk is open (relaxed)
  uint32_t reserved0;
  Chunk* previous;  // in its track's list (State::lock)
  uint64_t reserved[3];
};
static_assert(sizeof(Chunk) == 128, "the chunk header is ABI");
constexpr size_t kChunkCapacity = (kChunkBytes - sizeof(Chunk)) / sizeof(Slot);
static_assert(kChunkBytes - sizeof(Chunk) - kChunkCapacity * sizeof(Slot) >= sizeof(uint64_t),
              "blank_slot() behind the last one writes here");

inline Slot* chunk_slots(Chunk* chunk) noexcept {
  return reinterpret_cast<Slot*>(chunk + 1);
}
inline const Slot* chunk_slots(const Chunk* chunk) noexcept {
  return reinterpret_cast<const Slot*>(chunk + 1);
}
inline Slot* chunk_end(Chunk* chunk) noexcept {
  return chunk_slots(chunk) + kChunkCapacity;
}
inline Chunk* chunk_of(const void* address) noexcept {
  return reinterpret_cast<Chunk*>(reinterpret_cast<uintptr_t>(address) & ~(kChunkBytes - 1));
}

// Header of a slab: its first 64 KB. Never unmapped while the process lives, so a stale end store
// cannot fault.
struct Slab {
  uint32_t magic;
  uint16_t abi_major;
  uint16_t header_bytes;
  uint32_t pid;
  uint32_t carved;   // chunks handed out at least once
  uint32_t faulted;  // chunks whose pages the prefault thread has touched (State::lock)
  uint32_t free;     // chunks of it in the free list
  Slab* next;
  ClockKnot base;  // of its mapping
  struct BlankSlabPlace*
      place;  // its entry in State::blank_slabs, for when its pages are given back
};

// List entry of a slab that is mapped and has no page. It lies outside of the slab, of which one
// touched byte would bring a huge page back.
struct BlankSlabPlace {
  Slab* slab;
  BlankSlabPlace* next;
};

inline Slab* slab_of(const void* address) noexcept {
  return reinterpret_cast<Slab*>(reinterpret_cast<uintptr_t>(address) & ~(kSlabBytes - 1));
}

FASTPROF_NAMESPACE_END
