// SPDX-License-Identifier: Apache-2.0
// The pool: slabs from the kernel, chunks carved from them, the free list, and giving memory back.
#pragma once

#include <sys/mman.h>

#include <cstring>

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/arena.hpp"
#include "fastprof/recorder/state.hpp"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

FASTPROF_NAMESPACE_BEGIN

// What stays resident between sessions, so that the next one starts warm.
constexpr size_t kWarmPoolBytes = 32 * 1024 * 1024;

// Slabs are mapped many at a time, because mmap and madvise need the kernel's memory-map lock for
// writing: a thread that maps a slab waits until another one has faulted its slab in (8 ms where
// the machine has never touched that memory), and holds State::lock meanwhile.
constexpr size_t kSlabsPerRegion = 16;

// Maps `count` adjacent slabs, aligned to their size; no page of them is touched. Null when the
// kernel refuses. MADV_WIPEONFORK: a child sees zeroes, so the parent's next writes cause no
// copy-on-write faults (34 to 81 ns a scope without it) and an end store in the child hits memory
// that is there. The kernel may refuse both hints.
inline char* map_region(size_t count) noexcept {
  const size_t region_bytes = count * kSlabBytes;
  const size_t bytes = region_bytes + kSlabBytes;
  void* raw = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  const auto first = reinterpret_cast<uintptr_t>(raw);
  const uintptr_t aligned = (first + kSlabBytes - 1) & ~(kSlabBytes - 1);
  if (aligned > first) ::munmap(raw, aligned - first);
  const uintptr_t end = first + bytes;
  const uintptr_t aligned_end = aligned + region_bytes;
  if (end > aligned_end) ::munmap(reinterpret_cast<void*>(aligned_end), end - aligned_end);
  auto* region = reinterpret_cast<char*>(aligned);
  ::madvise(region, region_bytes, MADV_HUGEPAGE);
  ::madvise(region, region_bytes, MADV_WIPEONFORK);
  return region;
}

// A slab without pages, to be initialised. The slab itself is not touched before its pages are
// wanted: one byte faults 2 MB in, 0.2 to 8 ms, which must not happen under State::lock where it
// can be helped.
struct BlankSlab {
  Slab* slab = nullptr;
  BlankSlabPlace* place = nullptr;  // its entry in State::blank_slabs, reused when it is trimmed
};

// Adds slabs without pages to State::blank_slabs: a region, or one slab where address space is
// limited. State::lock held.
inline void add_blank_slabs(State* s) noexcept {
  size_t count = kSlabsPerRegion;
  char* region = map_region(count);
  if (region == nullptr) region = map_region(count = 1);
  if (region == nullptr) return;
  for (size_t i = count; i-- > 0;) {
    auto* place = static_cast<BlankSlabPlace*>(arena_allocate(s, sizeof(BlankSlabPlace)));
    if (place == nullptr) return;
    *place = {reinterpret_cast<Slab*>(region + i * kSlabBytes), s->blank_slabs};
    s->blank_slabs = place;
  }
}

// The next slab without pages; `slab` is null when there is no memory. State::lock held.
inline BlankSlab take_blank(State* s) noexcept {
  if (s->blank_slabs == nullptr) add_blank_slabs(s);
  BlankSlabPlace* place = s->blank_slabs;
  if (place == nullptr) return {};
  s->blank_slabs = place->next;
  return {place->slab, place};
}

// Gives the pages of a slab back; the mapping stays. State::lock held.
inline void trim_slab(State* s, Slab* slab) noexcept {
  BlankSlabPlace* place = slab->place;  // read before the pages go
  ::madvise(slab, kSlabBytes, MADV_DONTNEED);
  *place = {slab, s->blank_slabs};
  s->blank_slabs = place;
}

inline void init_slab(State* s, BlankSlab blank) noexcept {
  Slab* slab = blank.slab;
  slab->place = blank.place;
  slab->magic = kSlabMagic;
  slab->abi_major = FASTPROF_ABI_MAJOR;
  slab->header_bytes = sizeof(Slab);
  slab->pid = static_cast<uint32_t>(s->pid);
  slab->carved = 0;
  slab->free = 0;
  slab->base = take_clock_knot(4);
}

// Faults all pages of a slab in.
inline void populate_slab(Slab* slab) noexcept {
  if (::madvise(slab, kSlabBytes, MADV_POPULATE_WRITE) == 0) return;
  volatile char* bytes = reinterpret_cast<volatile char*>(slab);
  for (size_t i = 0; i < kSlabBytes; i += 4096) bytes[i] = 0;
}

// The next slab to carve from. `populate`: fault it in now (a growing thread without a prefault
// thread). State::lock held.
inline Slab* next_slab(State* s, bool populate) noexcept {
  Slab* slab = s->ready;
  if (slab != nullptr) {
    s->ready = slab->next;
    --s->ready_count;
  } else {
    const BlankSlab blank = take_blank(s);
    slab = blank.slab;
    if (slab == nullptr) return nullptr;
    if (populate) populate_slab(slab);
    init_slab(s, blank);
  }
  slab->next = s->slabs;
  s->slabs = slab;
  return slab;
}

// A chunk from the free list or newly carved within the bound, or null. State::lock held.
inline Chunk* take_chunk(State* s, bool populate, bool beyond_bound = false) noexcept {
  // Chunks in use count, not those that exist: an overwriting session of 1 MB must wrap at 1 MB,
  // however many free chunks an earlier session has left.
  if (s->chunk_count - s->free_count >= s->max_chunks && !beyond_bound) return nullptr;
  if (Chunk* chunk = s->free_chunks) {
    s->free_chunks = chunk->next;
    --s->free_count;
    --slab_of(chunk)->free;
    return chunk;
  }
  if (s->carving == nullptr || s->carving->carved == kChunksPerSlab) {
    Slab* slab = next_slab(s, populate);
    if (slab == nullptr) return nullptr;
    s->carving = slab;
  }
  Slab* slab = s->carving;
  auto* chunk =
      reinterpret_cast<Chunk*>(reinterpret_cast<char*>(slab) + kChunkBytes * (slab->carved + 1));
  ++slab->carved;
  ++s->chunk_count;
  chunk->magic = kChunkMagic;
  chunk->abi_major = FASTPROF_ABI_MAJOR;
  chunk->header_bytes = sizeof(Chunk);
  chunk->gen = 0;
  return chunk;
}

// Returns a chunk that no session pins and no open slot lives in (or whose thread is dead).
// State::lock held.
inline void give_chunk(State* s, Chunk* chunk) noexcept {
  chunk->place = ChunkPlace::free;
  chunk->owner = nullptr;
  chunk->next = s->free_chunks;
  s->free_chunks = chunk;
  ++s->free_count;
  ++slab_of(chunk)->free;
}

// Gives slabs that are wholly free back to the kernel (the mapping stays), down to the warm pool,
// and the slabs that were faulted ahead. Called at the stop of the last session. State::lock held.
inline void trim_pool(State* s) noexcept {
  while (Slab* slab = s->ready) {
    s->ready = slab->next;
    --s->ready_count;
    trim_slab(s, slab);
  }
  const size_t warm_chunks = kWarmPoolBytes / kChunkBytes;
  if (s->free_count <= warm_chunks) return;
  size_t excess = s->free_count - warm_chunks;
  bool any = false;
  for (Slab* slab = s->slabs; slab != nullptr && excess >= kChunksPerSlab; slab = slab->next) {
    if (slab == s->carving || slab->free != kChunksPerSlab) continue;
    slab->magic = 0;  // marks it for the passes below
    excess -= kChunksPerSlab;
    any = true;
  }
  if (!any) return;
  for (Chunk** link = &s->free_chunks; *link != nullptr;) {
    if (slab_of(*link)->magic == 0) {
      *link = (*link)->next;
      --s->free_count;
      --s->chunk_count;
    } else {
      link = &(*link)->next;
    }
  }
  for (Slab** link = &s->slabs; *link != nullptr;) {
    Slab* slab = *link;
    if (slab->magic != 0) {
      link = &slab->next;
      continue;
    }
    *link = slab->next;
    trim_slab(s, slab);
  }
}

FASTPROF_NAMESPACE_END
