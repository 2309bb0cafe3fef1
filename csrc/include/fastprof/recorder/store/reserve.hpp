// SPDX-License-Identifier: Apache-2.0
// Slow path of reserving: gives the thread a new chunk within the sessions' bounds and policies.
#pragma once

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/state/task_switch.hpp"
#include "fastprof/recorder/store/calibration.hpp"
#include "fastprof/recorder/store/prefault.hpp"
#include "fastprof/recorder/store/spill_gate.hpp"
#include "fastprof/recorder/store/track.hpp"

FASTPROF_NAMESPACE_BEGIN

// Live sessions that keep all records (do not overwrite) and are below their bound, a bit per slot.
inline uint64_t sessions_with_room(const State* s) noexcept {
  uint64_t bits = 0;
  for (uint64_t rest = s->session_bits & s->keep_bits; rest != 0; rest &= rest - 1) {
    const int i = __builtin_ctzll(rest);
    if (s->sessions[i].pinned_chunks < s->sessions[i].max_chunks) bits |= uint64_t{1} << i;
  }
  return bits;
}

// Counts the records of a chunk that is about to be recycled as dropped, for each live session that
// has neither read nor counted them. State::lock held.
inline void count_recycled(State* s, const Chunk* chunk) noexcept {
  for (uint64_t rest = s->session_bits; rest != 0; rest &= rest - 1) {
    const int i = __builtin_ctzll(rest);
    SessionSlot& slot = s->sessions[i];
    const bool keeps = (s->keep_bits >> i & 1) != 0;
    if (chunk->close_ticks < slot.t0 || (chunk->counted >> i & 1) != 0) continue;
    add_dropped(slot, keeps ? DropCause::bound : DropCause::overwritten,
                count_records(chunk, closed_end(chunk), filter_of(slot)).events);
  }
}

// The thread's oldest full chunk that no session pins and that may be reused. Open ranges in it do
// not prevent reuse: only this thread, which is here, could end them.
inline Chunk* own_idle_chunk(const State* s, Track* track) noexcept {
  if (track->unpinned == 0) return nullptr;
  for (Chunk* chunk = track->oldest; chunk != nullptr; chunk = chunk->next)
    if (chunk->pins == 0 && chunk->place == ChunkPlace::full && may_reuse(s, chunk)) return chunk;
  return nullptr;
}

// The oldest chunk of any thread that `track` may overwrite. Other live threads' chunks qualify
// only without open ranges.
inline Chunk* oldest_idle_chunk(State* s, const Track* track) noexcept {
  Chunk* best = nullptr;
  for (Track* other = s->tracks; other != nullptr; other = other->next) {
    if (other->unpinned == 0) continue;
    for (Chunk* chunk = other->oldest; chunk != nullptr; chunk = chunk->next) {
      if (chunk->pins != 0 || chunk->place != ChunkPlace::full) continue;
      if (best != nullptr && chunk->close_ticks >= best->close_ticks) break;
      if (other != track && other->alive != 0 && has_open_slots(chunk)) continue;
      if (!may_reuse(s, chunk)) continue;
      best = chunk;
      break;
    }
  }
  return best;
}

// Chunks whose records are older than every live session: ranges that were left open keep them.
inline uint64_t earlier_chunks(const State* s) noexcept {
  uint64_t first = UINT64_MAX;
  for (uint64_t rest = s->session_bits; rest != 0; rest &= rest - 1) {
    const uint64_t t0 = s->sessions[__builtin_ctzll(rest)].t0;
    if (t0 < first) first = t0;
  }
  uint64_t count = 0;
  for (const Track* track = s->tracks; track != nullptr; track = track->next) {
    if (track->unpinned == 0) continue;
    for (const Chunk* chunk = track->oldest; chunk != nullptr; chunk = chunk->next) {
      if (chunk->place != ChunkPlace::full || chunk->close_ticks >= first) break;
      if (chunk->pins == 0) ++count;
    }
  }
  return count;
}

// Whether the sessions' bounds allow one more chunk, which those in `room` will pin. State::lock
// held.
inline bool may_take_chunk(const State* s, uint64_t room) noexcept {
  if (room != 0) return true;  // their bounds count pinned chunks
  // The bound of overwriting sessions counts chunks in use, not all: one of 1 MB must wrap at 1 MB
  // even if an earlier session left free chunks.
  const uint64_t used = s->chunk_count - s->free_count;
  return used < s->max_chunks || used - earlier_chunks(s) < s->max_chunks;
}

// Takes a full, unpinned chunk from its track and counts its records as dropped. State::lock held.
inline Chunk* recycle(State* s, Chunk* chunk) noexcept {
  count_recycled(s, chunk);
  unlist_shared(chunk);
  Track* owner = chunk->owner;
  unlink_chunk(owner, chunk);
  --owner->unpinned;
  if (owner->alive == 0 && owner->oldest == nullptr) free_track(s, owner);
  return chunk;
}

// Takes a chunk for the thread's next records and pins it for each session with room; null if every
// live session is at its bound. `lifted`: sessions that may exceed their bound. State::lock held.
inline Chunk* acquire_chunk(State* s, Track* track, bool growing, uint64_t lifted) noexcept {
  const uint64_t room = sessions_with_room(s) | lifted;
  const uint64_t overwriting = s->session_bits & ~s->keep_bits;
  if ((room | overwriting) == 0) return nullptr;
  Chunk* chunk = nullptr;
  if (overwriting == 0) {
    if ((chunk = own_idle_chunk(s, track)) != nullptr) chunk = recycle(s, chunk);
  }
  if (chunk == nullptr && may_take_chunk(s, room))
    chunk = take_chunk(s, growing && s->prefault_running == 0);
  if (chunk == nullptr) {
    chunk = overwriting != 0 ? oldest_idle_chunk(s, track) : nullptr;
    if (chunk == nullptr) return nullptr;
    chunk = recycle(s, chunk);
  }
  chunk->pins = room;
  for (uint64_t rest = room; rest != 0; rest &= rest - 1)
    count_pin(s->sessions[__builtin_ctzll(rest)]);
  return chunk;
}

// Writes membership records for the thread's live thread-local sessions at the start of its part of
// a chunk. Returns the next slot. State::lock held.
inline Slot* repeat_memberships(State* s, const Track* track, Chunk* chunk) noexcept {
  Slot* slot = current_part(chunk);
  const uint64_t live = live_local_sessions(s, {track->local_sessions, track->local_newest_id});
  for (uint64_t rest = live; rest != 0; rest &= rest - 1)
    fill_membership(s, slot++, s->sessions[__builtin_ctzll(rest)].id, true);
  return slot;
}

// Leader function, see RecorderFunctions.
inline Slot* leader_reserve_slow(State* s, ThreadBlock* block, uint32_t units,
                                 uint32_t mask) noexcept {
  if ((block->flags & thread_flag::busy) != 0) {
    count_dropped(s, block->track, mask, ticks(s), DropCause::reentrant);
    return nullptr;
  }
  BusyScope busy(block);
  Slot* slot = nullptr;
  bool wake_prefault = false;
  pthread_mutex_lock(&s->lock);
  Track* track = block->track;
  if (track == nullptr) track = register_track(s, block);
  uint64_t now = ticks(s);
  if (track == nullptr) {
    count_dropped(s, nullptr, mask, now, DropCause::thread_exit);
  } else if (s->session_bits != 0) {
    Chunk* current = track->newest;
    bool growing = current != nullptr && current->place == ChunkPlace::current;
    const bool retired = track->block == nullptr;
    if (growing && retired && may_reuse(s, current) &&
        current->used_bytes / sizeof(Slot) + units <= kChunkCapacity) {
      slot = chunk_slots(current) + current->used_bytes / sizeof(Slot);
      blank_slot(slot + units);
      current->used_bytes += units * static_cast<uint32_t>(sizeof(Slot));
      growing = false;
    } else {
      if (growing)
        close_chunk(s, track, current,
                    reinterpret_cast<uintptr_t>(chunk_written_end(track, current)));
      Chunk* chunk = track->next_sequence == 0 ? take_shared(s, units) : nullptr;
      const bool shared = chunk != nullptr;
      if (shared) {
        continue_chunk(s, track, chunk);
      } else if (units <= kChunkCapacity - kMaxSessions - 1) {
        const uint64_t lifted = pass_spill_gate(s);
        // `now` again: a session that ended while this thread waited must not count this loss.
        now = ticks(s);
        chunk = acquire_chunk(s, track, growing, lifted);
      }
      if (chunk != nullptr) {
        if (!shared) append_chunk(s, track, chunk);
        slot = repeat_task(s, track, repeat_memberships(s, track, chunk));
        blank_slot(slot);
        blank_slot(slot + units);
        if (retired) {
          chunk->used_bytes = static_cast<uint32_t>(slot + units - chunk_slots(chunk)) *
                              static_cast<uint32_t>(sizeof(Slot));
        } else {
          busy.set_limit(reinterpret_cast<uintptr_t>(chunk_end(chunk)));
          store_release(&block->cursor, reinterpret_cast<uintptr_t>(slot + units));
        }
      } else {
        busy.set_limit(0);
        store_relaxed(&block->cursor, uintptr_t{0});
        count_dropped(s, track, mask, now, DropCause::bound);
      }
    }
    wake_prefault = growing && slot != nullptr && want_prefault(s);
    if (now > s->pending_knot_ticks && s->knots != nullptr) add_knot(s, 8);
  }
  pthread_mutex_unlock(&s->lock);
  if (wake_prefault) prefault_ahead(s);
  return slot;
}

// Leader function, see RecorderFunctions.
inline Track* leader_track(State* s, ThreadBlock* block) noexcept {
  if (block->track != nullptr) return block->track;
  if ((block->flags & thread_flag::busy) != 0) return nullptr;
  BusyScope busy(block);
  ScopedLock hold(s->lock);
  return register_track(s, block);
}

FASTPROF_NAMESPACE_END
