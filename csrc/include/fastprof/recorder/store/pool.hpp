// SPDX-License-Identifier: Apache-2.0
// Chunk pool: maps slabs, carves chunks from them, keeps the free list and returns memory to the
// kernel. While a backing file is in force (backing_file.hpp), new slabs lie in it; free chunks and
// pre-faulted slabs that do not are parked.
#pragma once

#include <sys/mman.h>

#include <cstring>

#include "fastprof/base/config.hpp"
#include "fastprof/platform/memory.hpp"
#include "fastprof/recorder/state/state.hpp"
#include "fastprof/recorder/store/arena.hpp"
#include "fastprof/recorder/store/backing_file.hpp"
#include "fastprof/recorder/store/shared_chunks.hpp"

FASTPROF_NAMESPACE_BEGIN

// Memory that stays resident between sessions, so that the next session causes no page faults.
constexpr size_t kWarmPoolBytes = 32 * 1024 * 1024;

// Slabs mapped per mmap call. mmap and madvise take the kernel's memory-map lock for writing, so a
// thread that maps a slab, holding State::lock, waits while another thread faults its slab in (8 ms
// on memory that the machine has never touched).
constexpr size_t kSlabsPerRegion = 16;

// Maps `count` adjacent slabs, aligned to their size, without touching a page. Null if the kernel
// refuses. wipe_in_children(): a child sees zeroes, so that the parent's next writes cause no
// copy-on-write faults (34 to 81 ns a scope without) and an end stored in the child hits mapped
// memory. The kernel may refuse both hints.
inline char* map_region(size_t count) noexcept {
  const size_t region_bytes = count * kSlabBytes;
  const size_t bytes = region_bytes + kSlabBytes;
  void* raw = platform::map_blank(bytes);
  if (raw == nullptr) return nullptr;
  const auto first = reinterpret_cast<uintptr_t>(raw);
  const uintptr_t aligned = (first + kSlabBytes - 1) & ~(kSlabBytes - 1);
  if (aligned > first) ::munmap(raw, aligned - first);
  const uintptr_t end = first + bytes;
  const uintptr_t aligned_end = aligned + region_bytes;
  if (end > aligned_end) ::munmap(reinterpret_cast<void*>(aligned_end), end - aligned_end);
  auto* region = reinterpret_cast<char*>(aligned);
  platform::want_huge_pages(region, region_bytes);
  platform::wipe_in_children(region, region_bytes);
  return region;
}

// A mapped slab without pages, not initialised yet. It is not touched before its pages are needed:
// the first byte faults in 2 MB, which takes 0.2 to 8 ms and should not happen under State::lock.
struct BlankSlab {
  Slab* slab = nullptr;
  BlankSlabPlace* place = nullptr;  // its entry in State::blank_slabs, reused when trimmed
  uint32_t generation = 0;          // of the backing file it lies in; 0: none
  uint32_t segment = 0;             // position in that file
};

// Adds a region of slabs to State::blank_slabs, or a single slab if address space is limited.
// State::lock held.
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

// Takes a slab without pages, from the backing file if one is in force and has room; `slab` is null
// if mmap fails. In a file, 2 MB are reserved (0.2 ms). State::lock held.
inline BlankSlab take_blank(State* s) noexcept {
  if (file_in_force(s)) {
    BackingFile* file = s->backing_file;
    char* address = nullptr;
    int error = 0;
    BlankSlabPlace* place = file->retired;
    const uint64_t segment =
        take_segment(file, kSlabBytes, place != nullptr ? place->slab : nullptr, &address, &error);
    if (segment != 0) {
      if (place != nullptr) file->retired = place->next;
      return {reinterpret_cast<Slab*>(address), place, file->generation,
              static_cast<uint32_t>(segment)};
    }
    count_fallback(file, error);
  }
  if (s->blank_slabs == nullptr) add_blank_slabs(s);
  BlankSlabPlace* place = s->blank_slabs;
  if (place == nullptr) return {};
  s->blank_slabs = place->next;
  return {place->slab, place};
}

// Replaces a slab of a file by anonymous memory, where later files map their slabs. State::lock
// held.
inline void retire_file_slab(State* s, Slab* slab) noexcept {
  BlankSlabPlace* place = slab->place;  // read before the pages are dropped
  unmap_segment(slab);
  if (place == nullptr)
    place = static_cast<BlankSlabPlace*>(arena_allocate(s, sizeof(BlankSlabPlace)));
  if (place == nullptr) return;
  *place = {slab, s->backing_file->retired};
  s->backing_file->retired = place;
}

// Removes a slab without used chunks from BackingFile::slabs and retires it. State::lock held.
inline void drop_file_slab(State* s, FileSlab* slab) noexcept {
  for (FileSlab** link = &s->backing_file->slabs; *link != nullptr; link = &(*link)->next) {
    if (*link != slab) continue;
    *link = slab->next;
    break;
  }
  retire_file_slab(s, &slab->slab);
}

// Returns a slab's pages to the kernel and adds it to State::blank_slabs; the mapping stays.
// State::lock held.
inline void trim_slab(State* s, Slab* slab) noexcept {
  BlankSlabPlace* place = slab->place;  // read before the pages are dropped
  platform::discard_pages(slab, kSlabBytes);
  *place = {slab, s->blank_slabs};
  s->blank_slabs = place;
}

// Writes the header of a slab, which touches its first page. State::lock held.
inline void init_slab(State* s, BlankSlab blank) noexcept {
  Slab* slab = blank.slab;
  slab->place = blank.place;
  slab->abi_major = FASTPROF_ABI_MAJOR;
  slab->header_bytes = blank.generation != 0 ? sizeof(FileSlab) : sizeof(Slab);
  slab->pid = static_cast<uint32_t>(s->pid);
  slab->carved = 0;
  slab->free = 0;
  slab->base = take_clock_knot(4);
  if (blank.generation != 0) {
    auto* in_file = reinterpret_cast<FileSlab*>(slab);
    in_file->generation = blank.generation;
    in_file->segment = blank.segment;
    in_file->address = reinterpret_cast<uintptr_t>(slab);
    in_file->next = s->backing_file->slabs;
    s->backing_file->slabs = in_file;
  }
  // Last: a reader of the file takes a segment with this magic for a slab.
  store_release(&slab->magic, kSlabMagic);
}

// Faults in all pages of a slab.
inline void populate_slab(Slab* slab) noexcept {
  if (platform::populate_pages(slab, kSlabBytes)) return;
  volatile char* bytes = reinterpret_cast<volatile char*>(slab);
  for (size_t i = 0; i < kSlabBytes; i += 4096) bytes[i] = 0;
}

// Adds an initialised slab to the list of those to carve next, unless it cannot be used now: since
// take_blank(), a backing file may have come into force or gone out of force. State::lock held.
inline void add_ready(State* s, Slab* slab) noexcept {
  if (is_file_slab(slab) && !in_current_file(s, slab))
    return drop_file_slab(s, reinterpret_cast<FileSlab*>(slab));
  if (!is_file_slab(slab) && file_in_force(s) && s->backing_file->fallback_slabs == 0) {
    slab->next = s->backing_file->parked_ready;
    s->backing_file->parked_ready = slab;
    return;
  }
  slab->next = s->ready;
  s->ready = slab;
  ++s->ready_count;
}

// Takes the next slab to carve: a pre-faulted one, else a blank one; null if mmap fails.
// `populate`: faults in all pages of a blank one now (for a growing thread, if no prefault thread
// runs). State::lock held.
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
  if (!is_file_slab(slab)) {
    slab->next = s->slabs;
    s->slabs = slab;
  }
  return slab;
}

// Takes a parked chunk, if the backing file has no room for more; else null. State::lock held.
inline Chunk* take_parked(State* s) noexcept {
  if (!file_in_force(s) || s->backing_file->fallback_slabs == 0) return nullptr;
  Chunk* chunk = s->backing_file->parked_chunks;
  if (chunk == nullptr) return nullptr;
  s->backing_file->parked_chunks = chunk->next;
  ++s->chunk_count;
  --slab_of(chunk)->free;
  return chunk;
}

// Carves the next chunk from a slab, whose pages exist. State::lock held.
inline Chunk* carve_chunk(Slab* slab) noexcept {
  auto* chunk =
      reinterpret_cast<Chunk*>(reinterpret_cast<char*>(slab) + kChunkBytes * (slab->carved + 1));
  ++slab->carved;
  chunk->abi_major = FASTPROF_ABI_MAJOR;
  chunk->header_bytes = sizeof(Chunk);
  chunk->gen = 0;
  chunk->place = ChunkPlace::free;
  // Last: a reader of a backing file takes memory with this magic for a chunk.
  store_release(&chunk->magic, kChunkMagic);
  return chunk;
}

// Takes a chunk from the free list, or carves one; null if memory is short. State::lock held.
inline Chunk* take_chunk(State* s, bool populate) noexcept {
  if (Chunk* chunk = s->free_chunks) {
    s->free_chunks = chunk->next;
    --s->free_count;
    --slab_of(chunk)->free;
    return chunk;
  }
  if (s->carving == nullptr || s->carving->carved == kChunksPerSlab) {
    if (Chunk* parked = take_parked(s)) return parked;
    Slab* slab = next_slab(s, populate);
    if (slab == nullptr) return nullptr;
    s->carving = slab;
  }
  ++s->chunk_count;
  return carve_chunk(s->carving);
}

// Puts a chunk on the free list. No session may pin it, and no range in it may be open unless its
// thread is dead. State::lock held.
inline void give_chunk(State* s, Chunk* chunk) noexcept {
  unlist_shared(chunk);
  Slab* slab = slab_of(chunk);
  ++slab->free;
  if (FASTPROF_UNLIKELY(s->backing_file != nullptr) && !in_current_file(s, slab)) {
    if (is_file_slab(slab)) {
      // The slab's file is no longer in force. Its chunks are not used again and stay unchanged for
      // the file's reader.
      --s->chunk_count;
      if (slab->free == slab->carved) drop_file_slab(s, reinterpret_cast<FileSlab*>(slab));
      return;
    }
    if (file_in_force(s)) {
      chunk->place = ChunkPlace::free;
      chunk->owner = nullptr;
      --s->chunk_count;
      chunk->next = s->backing_file->parked_chunks;
      s->backing_file->parked_chunks = chunk;
      return;
    }
  }
  chunk->place = ChunkPlace::free;
  chunk->owner = nullptr;
  chunk->next = s->free_chunks;
  s->free_chunks = chunk;
  ++s->free_count;
}

// Returns entirely free slabs to the kernel, except for kWarmPoolBytes, and all slabs that were
// faulted ahead; the mappings stay. Called when the last session stops. State::lock held.
inline void trim_pool(State* s) noexcept {
  if (file_in_force(s)) return;
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
