// SPDX-License-Identifier: Apache-2.0
// A thread's track: registration at its first record, retirement at its exit, its list of chunks.
#pragma once

#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/arena.hpp"
#include "fastprof/recorder/drops.hpp"
#include "fastprof/recorder/lock.hpp"
#include "fastprof/recorder/pool.hpp"
#include "fastprof/recorder/ticks.hpp"
#include "fastprof/recorder/track_name.hpp"

FASTPROF_NAMESPACE_BEGIN

inline uint32_t kernel_thread_id() noexcept {
  return static_cast<uint32_t>(::syscall(SYS_gettid));
}

// Appends a chunk as the current one. State::lock held.
inline void append_chunk(State* s, Track* track, Chunk* chunk) noexcept {
  chunk->pid = track->pid;
  chunk->tid = track->tid;
  chunk->track_id = track->id;
  chunk->sequence = track->next_sequence++;
  chunk->close_ticks = UINT64_MAX;
  chunk->used_bytes = 0;
  chunk->counted = 0;
  chunk->owner = track;
  chunk->next = nullptr;
  chunk->previous = track->newest;
  chunk->place = ChunkPlace::current;
  __atomic_fetch_add(&chunk->gen, 1u, __ATOMIC_ACQ_REL);
  store_release(&chunk->open_ticks, ticks(s));
  if (track->newest != nullptr)
    track->newest->next = chunk;
  else
    track->oldest = chunk;
  track->newest = chunk;
}

// Takes a chunk out of its track's list. State::lock held.
inline void unlink_chunk(Track* track, Chunk* chunk) noexcept {
  (chunk->previous != nullptr ? chunk->previous->next : track->oldest) = chunk->next;
  (chunk->next != nullptr ? chunk->next->previous : track->newest) = chunk->previous;
}

// The thread moves on from its current chunk: fixes what was written, and counts it as dropped for
// each live session that wanted it and did not get it. State::lock held; called by the chunk's
// thread, or when that thread cannot run.
inline void close_chunk(State* s, Track* track, Chunk* chunk, uintptr_t cursor) noexcept {
  chunk->used_bytes =
      static_cast<uint32_t>(cursor - reinterpret_cast<uintptr_t>(chunk_slots(chunk)));
  chunk->close_ticks = ticks(s);
  chunk->place = ChunkPlace::full;
  if (chunk->pins == 0) ++track->unpinned;
  const uint64_t denied = s->session_bits & s->keep_bits & ~chunk->pins & ~chunk->counted;
  for (uint64_t rest = denied; rest != 0; rest &= rest - 1) {
    const int i = __builtin_ctzll(rest);
    SessionSlot& slot = s->sessions[i];
    if (chunk->close_ticks < slot.t0) continue;
    const auto* last = reinterpret_cast<const Slot*>(cursor);
    const RecordCount refused = count_records(chunk, last, filter_of(slot));
    // A signal handler closes the chunk in which the code under it has a slot not written yet: then
    // counted at the session's stop, or when the chunk is recycled.
    if (refused.stopped_at != last) continue;
    add_dropped(slot, DropCause::bound, refused.events);
    chunk->counted |= uint64_t{1} << i;
  }
}

// Frees what a track holds that no session needs, and the track itself when its thread is dead.
// State::lock held. Chunks with open slots stay with a living thread, which reuses them in its own
// refill.
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

inline void free_track(State* s, Track* track) noexcept {
  for (Track** link = &s->tracks; *link != nullptr; link = &(*link)->next) {
    if (*link != track) continue;
    *link = track->next;
    break;
  }
  track->next = s->free_tracks;
  s->free_tracks = track;
}

// A track in the list, not tied to a thread's block yet. State::lock held. Null when the arena is
// exhausted.
inline Track* new_track(State* s) noexcept {
  Track* track = s->free_tracks;
  if (track != nullptr)
    s->free_tracks = track->next;
  else
    track = static_cast<Track*>(arena_allocate(s, sizeof(Track)));
  if (track == nullptr) return nullptr;
  void* counters = track->counters;  // closed, and arena memory: the next thread takes it over
  std::memset(static_cast<void*>(track), 0, sizeof(Track));
  track->counters = counters;
  track->id = ++s->next_track_id;
  track->pid = static_cast<uint32_t>(s->pid);
  track->tid = kernel_thread_id();
  track->alive = 1;
  track->next = s->tracks;
  s->tracks = track;
  return track;
}

// Registers the calling thread. State::lock held. Null when the arena is exhausted. A thread that
// was retired already (a key destructor that records after ours) gets a track without a block: its
// records go through the slow path one by one, so nothing refers to its thread-local storage when
// that vanishes.
inline Track* register_track(State* s, ThreadBlock* block) noexcept {
  // A library that was loaded meanwhile may have brought a better block; what was read before is
  // nobody's any more, and a track that pointed at it would outlive it.
  if (s->thread_block != nullptr && s->thread_block() != block) return nullptr;
  Track* track = new_track(s);
  if (track == nullptr) return nullptr;
  track->block = (block->flags & thread_flag::retired) != 0 ? nullptr : block;
  char name[17] = {};
  ::prctl(PR_GET_NAME, reinterpret_cast<unsigned long>(name), 0, 0, 0);
  set_track_text(track, name, strnlen(name, 16), "");
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

// Where the records of a chunk end: live in its thread's block while it is current, unless a signal
// scope has put the block to its own use (signal.hpp); the two words change one after the other, so
// an address outside the chunk means: read again, but not for ever.
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
    // cursor in another one, and no reservation has found out yet. The records themselves say where
    // they end.
    const Slot* slot = chunk_slots(chunk);
    const Slot* last = slot + kChunkCapacity;
    while (slot < last && load_acquire(&slot->begin) >= chunk->open_ticks)
      slot += record_units(slot);
    return slot < last ? slot : last;
  }
  return reinterpret_cast<const Slot*>(first + chunk->used_bytes);
}

// Closes the current chunk of a track whose thread cannot be writing now. State::lock held.
inline void close_track(State* s, Track* track) noexcept {
  Chunk* current = track->newest;
  if (current != nullptr && current->place == ChunkPlace::current)
    close_chunk(s, track, current, reinterpret_cast<uintptr_t>(chunk_written_end(track, current)));
  track->alive = 0;
  track->block = nullptr;
}

// Hands the calling thread's storage back. Runs after all C++ thread_local destructors (from a
// pthread key's).
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
