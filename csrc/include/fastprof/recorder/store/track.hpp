// SPDX-License-Identifier: Apache-2.0
// Tracks: registration at a thread's first record, the list of chunks, retirement at thread exit.
#pragma once

#include <pthread.h>

#include <cstring>

#include "fastprof/base/config.hpp"
#include "fastprof/platform/threads.hpp"
#include "fastprof/recorder/state/lock.hpp"
#include "fastprof/recorder/state/ticks.hpp"
#include "fastprof/recorder/store/arena.hpp"
#include "fastprof/recorder/store/drops.hpp"
#include "fastprof/recorder/store/pool.hpp"
#include "fastprof/recorder/store/track_name.hpp"

FASTPROF_NAMESPACE_BEGIN

// Links a chunk as the track's newest, current one. State::lock held.
inline void link_current(State* s, Track* track, Chunk* chunk) noexcept {
  chunk->tid = track->tid;
  chunk->track_id = track->id;
  chunk->sequence = track->next_sequence++;
  chunk->close_ticks = UINT64_MAX;
  chunk->owner = track;
  chunk->next = nullptr;
  chunk->previous = track->newest;
  chunk->place = ChunkPlace::current;
  __atomic_fetch_add(&chunk->gen, 1u, __ATOMIC_ACQ_REL);
  if (track->newest != nullptr)
    track->newest->next = chunk;
  else
    track->oldest = chunk;
  track->newest = chunk;
  label_chunk(s, track);
}

// Makes a chunk the track's current one. State::lock held.
inline void append_chunk(State* s, Track* track, Chunk* chunk) noexcept {
  // No slot is valid until the new open_ticks: a reader of a backing file must not take the records
  // of the chunk's previous thread for this one's.
  store_relaxed(&chunk->open_ticks, UINT64_MAX);
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  chunk->pid = track->pid;
  chunk->used_bytes = 0;
  chunk->part_bytes = 0;
  chunk->counted = 0;
  link_current(s, track, chunk);
  store_release(&chunk->open_ticks, ticks(s));
}

// Removes a chunk from its track's list. State::lock held.
inline void unlink_chunk(Track* track, Chunk* chunk) noexcept {
  (chunk->previous != nullptr ? chunk->previous->next : track->oldest) = chunk->next;
  (chunk->next != nullptr ? chunk->next->previous : track->newest) = chunk->previous;
}

// Closes the current chunk: stores its length, and counts its events as dropped for each live
// keeping session that did not pin it. State::lock held. Called by the chunk's thread, or while
// that thread cannot run.
inline void close_chunk(State* s, Track* track, Chunk* chunk, uintptr_t cursor) noexcept {
  chunk->used_bytes =
      static_cast<uint32_t>(cursor - reinterpret_cast<uintptr_t>(chunk_slots(chunk)));
  chunk->close_ticks = ticks(s);
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  chunk->place = ChunkPlace::full;  // last: used_bytes is valid from here on
  if (chunk->pins == 0) ++track->unpinned;
  const uint64_t denied = s->session_bits & s->keep_bits & ~chunk->pins & ~chunk->counted;
  for (uint64_t rest = denied; rest != 0; rest &= rest - 1) {
    const int i = __builtin_ctzll(rest);
    SessionSlot& slot = s->sessions[i];
    if (chunk->close_ticks < slot.t0) continue;
    const auto* last = reinterpret_cast<const Slot*>(cursor);
    const RecordCount refused = count_records(chunk, last, filter_of(slot));
    // If a signal handler closes the chunk while the interrupted code is writing a slot, the events
    // are counted later: at the session's stop, or when the chunk is recycled.
    if (refused.stopped_at != last) continue;
    add_dropped(slot, DropCause::bound, refused.events);
    chunk->counted |= uint64_t{1} << i;
  }
}

// Frees the track's chunks that no session needs. Chunks with open ranges stay with a live thread,
// which reuses them in its own refill. Returns whether the track itself can be freed: its thread is
// dead and it has no chunks. State::lock held.
inline bool sweep_track(State* s, Track* track) noexcept {
  const bool overwriting = (s->session_bits & ~s->keep_bits) != 0;
  Chunk** link = &track->oldest;
  Chunk* last = nullptr;
  while (Chunk* chunk = *link) {
    const bool idle = chunk->pins == 0 && chunk->place == ChunkPlace::full && !overwriting;
    if (idle && (track->alive == 0 || !has_open_slots(chunk))) {
      *link = chunk->next;
      --track->unpinned;
      give_chunk(s, chunk);
    } else {
      chunk->previous = last;
      last = chunk;
      link = &chunk->next;
    }
  }
  track->newest = last;
  return track->alive == 0 && track->oldest == nullptr;
}

// Moves a track without chunks to the list of free tracks. State::lock held.
inline void free_track(State* s, Track* track) noexcept {
  for (Track** link = &s->tracks; *link != nullptr; link = &(*link)->next) {
    if (*link != track) continue;
    *link = track->next;
    break;
  }
  track->next = s->free_tracks;
  s->free_tracks = track;
}

// Makes a chunk that another thread left (take_shared) the track's first one. The records in it
// stay as they are. State::lock held.
inline void continue_chunk(State* s, Track* track, Chunk* chunk) noexcept {
  Track* before = chunk->owner;
  unlink_chunk(before, chunk);
  if (chunk->pins == 0) --before->unpinned;
  link_current(s, track, chunk);
  if (before->alive == 0 && before->oldest == nullptr) free_track(s, before);
}

// Allocates a track and adds it to State::tracks, without a thread block. Null if the arena is
// exhausted. State::lock held.
inline Track* new_track(State* s) noexcept {
  Track* track = s->free_tracks;
  if (track != nullptr)
    s->free_tracks = track->next;
  else
    track = static_cast<Track*>(arena_allocate(s, sizeof(Track)));
  if (track == nullptr) return nullptr;
  void* counters = track->counters;  // closed arena memory, which the next thread reuses
  std::memset(static_cast<void*>(track), 0, sizeof(Track));
  track->counters = counters;
  track->id = ++s->next_track_id;
  track->pid = static_cast<uint32_t>(s->pid);
  track->tid = platform::thread_id();
  track->alive = 1;
  track->next = s->tracks;
  s->tracks = track;
  return track;
}

// Registers the calling thread. Null if the arena is exhausted or `block` has been replaced. A
// thread that was already retired (a pthread key destructor that records after ours) gets a track
// without a block: its records take the slow path one by one, so nothing refers to its thread-local
// storage once that is freed. State::lock held.
inline Track* register_track(State* s, ThreadBlock* block) noexcept {
  // A library that was loaded meanwhile may have provided another block. A track that pointed at
  // the old one would outlive it.
  if (s->thread_block != nullptr && s->thread_block() != block) return nullptr;
  Track* track = new_track(s);
  if (track == nullptr) return nullptr;
  track->block = (block->flags & thread_flag::retired) != 0 ? nullptr : block;
  char name[platform::kThreadNameBytes];
  platform::read_thread_name(name);
  set_track_text(track, name, std::strlen(name), "");
  s->recorded_once = 1;
  block->track = track;
  if (s->exit_key_made != 0) pthread_setspecific(s->exit_key, block);
  return track;
}

// Leader function, see RecorderFunctions and signal_scope.hpp.
inline Track* leader_signal_track(State* s, ThreadBlock* block, Track* interrupted) noexcept {
  StateLock hold(s);
  Track* signal = new_track(s);
  if (signal == nullptr) return nullptr;
  signal->block = block;
  signal->is_signal = 1;
  set_track_text(signal, interrupted->name, interrupted->name_length, " (signals)");
  interrupted->signal = signal;
  return signal;
}

// End of a chunk's records. While the chunk is current, it is the cursor in its thread's block, or
// suspended_cursor while a signal scope uses the block (signal_scope.hpp). The two change one after
// the other, so an address outside the chunk is read again, a bounded number of times.
inline const Slot* chunk_written_end(const Track* track, const Chunk* chunk) noexcept {
  const auto first = reinterpret_cast<uintptr_t>(chunk_slots(chunk));
  if (chunk->place == ChunkPlace::current && track->block != nullptr) {
    for (int tries = 0; tries < 1000; ++tries) {
      uintptr_t cursor = load_acquire(&track->suspended_cursor);
      if (cursor == 0) cursor = load_acquire(&track->block->cursor);
      if (cursor >= first && cursor <= reinterpret_cast<uintptr_t>(chunk) + kChunkBytes)
        return reinterpret_cast<const Slot*>(cursor);
    }
    // A signal handler took this chunk while its thread was between the load and the store of its
    // cursor in another one, and no reservation has noticed yet: find the end by walking the
    // records.
    const Slot* slot = chunk_slots(chunk);
    const Slot* last = slot + kChunkCapacity;
    while (slot < last && load_acquire(&slot->begin) >= chunk->open_ticks)
      slot += record_units(slot);
    return slot < last ? slot : last;
  }
  return closed_end(chunk);
}

// Closes the current chunk of a track whose thread cannot be writing. State::lock held.
inline void close_track(State* s, Track* track) noexcept {
  Chunk* current = track->newest;
  if (current != nullptr && current->place == ChunkPlace::current) {
    auto* last = const_cast<Slot*>(chunk_written_end(track, current));
    const Slot* end = append_thread_end(s, track, current, last);
    close_chunk(s, track, current, reinterpret_cast<uintptr_t>(end));
    if (end != last) list_shared(s, current);
  }
  track->alive = 0;
  track->block = nullptr;
}

// Detaches the calling thread from its track at thread exit. Runs in the destructor of a pthread
// key, after all C++ thread_local destructors.
inline void retire_track(State* s, ThreadBlock* block) noexcept {
  {
    BusyScope busy(block);
    ScopedLock hold(s->lock);
    Track* track = block->track;
    if (track != nullptr) {
      close_track(s, track);
      for (Track* signal = track->signal; signal != nullptr;) {
        Track* next = signal->signal;
        close_track(s, signal);
        if (sweep_track(s, signal)) free_track(s, signal);
        signal = next;
      }
      block->cursor = 0;
      busy.set_limit(0);
      block->mask = 0;
      block->track = nullptr;
      if (sweep_track(s, track)) free_track(s, track);
    }
  }
  block->flags |= thread_flag::retired;
}

FASTPROF_NAMESPACE_END
