// SPDX-License-Identifier: Apache-2.0
// Chunks and slabs: the memory that holds records. Their headers describe them, so a crash dump can
// be decoded without this code.
#pragma once

#include <cstdint>

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/state/clock.hpp"
#include "fastprof/recorder/state/slot.hpp"

FASTPROF_NAMESPACE_BEGIN

struct Track;

constexpr size_t kChunkBytes = 64 * 1024;
constexpr size_t kSlabBytes = 2 * 1024 * 1024;
constexpr size_t kChunksPerSlab =
    kSlabBytes / kChunkBytes - 1;  // the first 64 KB of a slab are its header
constexpr unsigned kMaxSessions = 64;

constexpr uint32_t kChunkMagic = 0x46504331;  // in memory: "1CPF"
constexpr uint32_t kSlabMagic = 0x46505331;   // "1SPF"

// What a chunk is used for: `current` is the one that its thread writes. Changed under State::lock
// only.
enum class ChunkPlace : uint32_t { free = 0, current = 1, full = 2 };

// Header of a chunk, at its first byte. A chunk is aligned to its size, so masking a slot's address
// yields its chunk.
struct Chunk {
  uint32_t magic;
  uint16_t abi_major;
  uint16_t header_bytes;
  uint32_t pid;
  uint32_t tid;
  uint32_t track_id;
  uint32_t gen;          // how often it was handed out (State::lock)
  uint64_t sequence;     // its number within the track
  uint64_t open_ticks;   // time of hand-out: a slot is valid iff its begin >= open_ticks
  uint64_t close_ticks;  // time its thread took the next chunk; UINT64_MAX while current
  uint32_t used_bytes;   // bytes of records behind the header, set when it is closed
  ChunkPlace place;
  uint64_t pins;     // bit per session slot that still has to read it (State::lock)
  uint64_t counted;  // bit per session slot that is done with it: read, or counted as dropped
  Chunk* next;       // in its track's list (oldest first) or in the free list
  Track* owner;
  // Equals gen once a drain has found that no range of this full chunk is open, until the chunk is
  // handed out again (relaxed).
  uint32_t quiet_gen;
  // Bytes of records of threads that have ended and left the rest to the next (thread_end.hpp); 0:
  // all records are of one thread (State::lock).
  uint32_t part_bytes;
  Chunk* previous;  // in its track's list (State::lock)
  // In State::shared_chunks: the next one, and what points at this one; else null (State::lock).
  Chunk* next_shared;
  Chunk** shared_link;
  uint64_t reserved[1];
};
static_assert(sizeof(Chunk) == 128, "the chunk header is ABI");
constexpr size_t kChunkCapacity = (kChunkBytes - sizeof(Chunk)) / sizeof(Slot);
static_assert(kChunkBytes - sizeof(Chunk) - kChunkCapacity * sizeof(Slot) >= sizeof(uint64_t),
              "blank_slot() behind the last one writes here");

// The first slot of a chunk, and the end of its memory for slots.
inline Slot* chunk_slots(Chunk* chunk) noexcept {
  return reinterpret_cast<Slot*>(chunk + 1);
}
inline const Slot* chunk_slots(const Chunk* chunk) noexcept {
  return reinterpret_cast<const Slot*>(chunk + 1);
}
inline Slot* chunk_end(Chunk* chunk) noexcept {
  return chunk_slots(chunk) + kChunkCapacity;
}
// The end of the records of a chunk that is not current.
inline const Slot* closed_end(const Chunk* chunk) noexcept {
  return reinterpret_cast<const Slot*>(reinterpret_cast<const char*>(chunk_slots(chunk)) +
                                       chunk->used_bytes);
}
// The first record of a chunk's present thread.
inline Slot* current_part(Chunk* chunk) noexcept {
  return reinterpret_cast<Slot*>(reinterpret_cast<char*>(chunk_slots(chunk)) + chunk->part_bytes);
}
// The chunk that contains an address of a slab, behind the slab's header.
inline Chunk* chunk_of(const void* address) noexcept {
  return reinterpret_cast<Chunk*>(reinterpret_cast<uintptr_t>(address) & ~(kChunkBytes - 1));
}

// Header of a slab: its first 64 KB. Slabs are never unmapped, so that a late store of an end
// cannot fault.
struct Slab {
  uint32_t magic;
  uint16_t abi_major;
  uint16_t header_bytes;
  uint32_t pid;
  uint32_t carved;   // chunks handed out at least once
  uint32_t faulted;  // chunks whose pages the prefault thread has touched (State::lock)
  uint32_t free;     // its chunks in the free list
  Slab* next;
  ClockKnot base;  // taken when it was mapped
  // List entry for State::blank_slabs, used when the slab's pages are given back.
  struct BlankSlabPlace* place;
};

// List entry of a slab that is mapped but has no pages. It lies outside the slab: touching one byte
// of a slab faults in a huge page.
struct BlankSlabPlace {
  Slab* slab;
  BlankSlabPlace* next;
};

// The slab that contains an address.
inline Slab* slab_of(const void* address) noexcept {
  return reinterpret_cast<Slab*>(reinterpret_cast<uintptr_t>(address) & ~(kSlabBytes - 1));
}

FASTPROF_NAMESPACE_END
