// SPDX-License-Identifier: Apache-2.0
// Shared chunks: a thread that ends leaves the rest of its chunk to the next thread that begins, so
// that 10^6 threads one after the other cost 48 to 96 bytes each beyond their records
// (thread_end.hpp), not 64 KB.
#pragma once

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/state/state.hpp"
#include "fastprof/recorder/state/thread_end.hpp"
#include "fastprof/recorder/state/ticks.hpp"
#include "fastprof/recorder/store/backing_file.hpp"
#include "fastprof/recorder/store/drops.hpp"

FASTPROF_NAMESPACE_BEGIN

// A chunk with less room is not continued: memberships and the current task come first.
constexpr size_t kLeastSharedUnits = kMaxSessions + 64;

// Removes a chunk from State::shared_chunks, if it is there. State::lock held.
inline void unlist_shared(Chunk* chunk) noexcept {
  if (chunk->shared_link == nullptr) return;
  *chunk->shared_link = chunk->next_shared;
  if (chunk->next_shared != nullptr) chunk->next_shared->shared_link = chunk->shared_link;
  chunk->shared_link = nullptr;
  chunk->next_shared = nullptr;
}

// Adds a closed chunk whose thread has ended to State::shared_chunks. State::lock held.
inline void list_shared(State* s, Chunk* chunk) noexcept {
  chunk->next_shared = s->shared_chunks;
  chunk->shared_link = &s->shared_chunks;
  if (chunk->next_shared != nullptr) chunk->next_shared->shared_link = &chunk->next_shared;
  s->shared_chunks = chunk;
}

// Appends the track's thread end to its current chunk, whose records end at `last`. Returns the new
// end; `last` if the chunk is not left to other threads: nobody records, it is nearly full, or a
// range in it is open (its end may still be stored in its slot). State::lock held; the thread
// cannot be writing.
inline Slot* append_thread_end(State* s, const Track* track, Chunk* chunk, Slot* last) noexcept {
  const uint32_t units = thread_end_units(track);
  const auto left = static_cast<size_t>(chunk_end(chunk) - last);
  if (s->session_bits == 0 || left < 1 + units + kLeastSharedUnits) return last;
  if (has_open_slots_between(chunk, current_part(chunk), last)) return last;
  blank_slot(last + 1 + units);
  fill_thread_end(track, last, units, ticks(s));
  last += 1 + units;
  chunk->part_bytes = static_cast<uint32_t>(reinterpret_cast<char*>(last) -
                                            reinterpret_cast<char*>(chunk_slots(chunk)));
  return last;
}

// Whether exactly the live sessions that keep records read the chunk, from its first record on, and
// none has released it. State::lock held.
inline bool may_continue(const State* s, const Chunk* chunk) noexcept {
  return chunk->place == ChunkPlace::full && chunk->pins == (s->session_bits & s->keep_bits) &&
         (chunk->counted & s->session_bits) == 0 && may_reuse(s, chunk);
}

// Takes a chunk with room for `units` and what begins a part from State::shared_chunks; null if
// there is none. It stays in its old track's list. Not while records are being read: a reader
// releases the chunks that were closed when it began. State::lock held.
inline Chunk* take_shared(State* s, uint32_t units) noexcept {
  if (s->shared_chunks == nullptr || units > kChunkCapacity) return nullptr;
  if (pthread_mutex_trylock(&s->drain_lock) != 0) return nullptr;
  Chunk* found = nullptr;
  for (Chunk* chunk = s->shared_chunks; chunk != nullptr && found == nullptr;) {
    Chunk* next = chunk->next_shared;
    if (!may_continue(s, chunk)) {
      unlist_shared(chunk);
    } else if (kChunkCapacity - chunk->used_bytes / sizeof(Slot) >= units + kLeastSharedUnits) {
      unlist_shared(chunk);
      found = chunk;
    }
    chunk = next;
  }
  pthread_mutex_unlock(&s->drain_lock);
  return found;
}

FASTPROF_NAMESPACE_END
