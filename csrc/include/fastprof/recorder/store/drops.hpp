// SPDX-License-Identifier: Apache-2.0
// Drop counting: counts the events that were not recorded, for each session that would have
// recorded them.
#pragma once

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/state/session_membership.hpp"
#include "fastprof/recorder/state/state.hpp"
#include "fastprof/recorder/state/task_switch.hpp"
#include "fastprof/recorder/state/thread_end.hpp"

FASTPROF_NAMESPACE_BEGIN

// Increments the session's number of pinned chunks. State::lock held.
inline void count_pin(SessionSlot& slot) noexcept {
  store_relaxed(&slot.pinned_chunks, slot.pinned_chunks + 1);
}

// Adds to a session's drop counter. Any thread, no lock.
inline void add_dropped(SessionSlot& slot, DropCause cause, uint64_t count) noexcept {
  __atomic_fetch_add(&slot.dropped[static_cast<size_t>(cause)], count, __ATOMIC_RELAXED);
  if (uint64_t* copy = load_relaxed(&slot.dropped_in_file))
    __atomic_fetch_add(&copy[static_cast<size_t>(cause)], count, __ATOMIC_RELAXED);
}

// Counts one lost record of `mask`, begun at `stamp` on the thread of `track`. Any thread, without
// a lock; exact only under State::lock.
inline void count_dropped(State* s, const Track* track, uint32_t mask, uint64_t stamp,
                          DropCause cause) noexcept {
  for (unsigned i = 0; i < kMaxSessions; ++i) {
    SessionSlot& slot = s->sessions[i];
    if (load_acquire(&slot.live) == 0 || (load_relaxed(&slot.mask) & mask & category::all) == 0)
      continue;
    if (stamp < load_relaxed(&slot.t0) || stamp >= load_relaxed(&slot.t1)) continue;
    if (load_relaxed(&slot.local) != 0 && !belongs(s, track, i)) continue;
    add_dropped(slot, (mask & kEndRecord) != 0 ? DropCause::ends : cause, 1);
  }
}

// Selects the records that belong to a session: by begin stamp, category and membership.
struct RecordFilter {
  uint64_t session_id;
  uint64_t t0, t1;  // ticks
  uint32_t mask;
  bool local;
};

// The filter of a session. State::lock held.
inline RecordFilter filter_of(const SessionSlot& session) noexcept {
  return {session.id, session.t0, session.t1, session.mask, session.local != 0};
}

// Result of count_records().
struct RecordCount {
  uint64_t events;
  const Slot* stopped_at;  // the first slot that is reserved but not written yet, or `last`
};

// Counts the session's events in a chunk, up to `last`. It stops early at a slot that is not
// written yet, because the size of that record is unknown. The chunk must not be recycled
// meanwhile.
inline RecordCount count_records(const Chunk* chunk, const Slot* last,
                                 const RecordFilter& session) noexcept {
  uint64_t count = 0;
  MembershipWalk membership(session.session_id, session.local);
  for (const Slot* slot = chunk_slots(chunk); slot < last;) {
    const uint64_t begin = load_acquire(&slot->begin);
    if (begin < chunk->open_ticks) return {count, slot};
    const uintptr_t word = load_relaxed(&slot->site);
    const RecordTag tag = tag_of(word);
    const Site* site = site_of(word);
    // Not events: appended ends, which belong to another record, membership records, task switches
    // and thread ends.
    const bool event = (tag == RecordTag::slot || tag == RecordTag::detailed) &&
                       site->kind != SiteKind::session_membership && !is_task_switch(site);
    if (event && membership.inside && (site->mask & session.mask) != 0 && begin >= session.t0 &&
        begin < session.t1)
      ++count;
    if (site->kind == SiteKind::session_membership) membership.apply(load_relaxed(&slot->end));
    if (is_thread_end(site)) membership = MembershipWalk(session.session_id, session.local);
    slot += record_units(slot);
  }
  return {count, last};
}

// Whether a range between two records of a chunk is still open. 2.5 us for a full chunk; slow paths
// only. State::lock held.
inline bool has_open_slots_between(const Chunk* chunk, const Slot* slot,
                                   const Slot* last) noexcept {
  while (slot < last) {
    const uint64_t begin = load_acquire(&slot->begin);
    if (begin < chunk->open_ticks) return true;  // reserved, not written yet
    const uintptr_t word = load_relaxed(&slot->site);
    const RecordTag tag = tag_of(word);
    if ((tag == RecordTag::slot || tag == RecordTag::detailed) &&
        site_of(word)->kind == SiteKind::range) {
      const uint64_t end = load_acquire(&slot->end);
      if (end == 0 || end < begin) return true;
    }
    slot += record_units(slot);
  }
  return false;
}

// Whether a range in the chunk, which is not current, is still open. State::lock held.
inline bool has_open_slots(const Chunk* chunk) noexcept {
  if (chunk->place == ChunkPlace::full && load_relaxed(&chunk->quiet_gen) == chunk->gen)
    return false;
  return has_open_slots_between(chunk, chunk_slots(chunk), closed_end(chunk));
}

FASTPROF_NAMESPACE_END
