// SPDX-License-Identifier: Apache-2.0
// Counting what was produced and not recorded, for every session that would have wanted it.
#pragma once

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/segment.hpp"
#include "fastprof/recorder/state.hpp"

FASTPROF_NAMESPACE_BEGIN

// One chunk more is kept for the session. State::lock held.
inline void count_pin(SessionSlot& slot) noexcept {
  store_relaxed(&slot.pinned_chunks, slot.pinned_chunks + 1);
}

inline void add_dropped(SessionSlot& slot, DropCause cause, uint64_t count) noexcept {
  __atomic_fetch_add(&slot.dropped[static_cast<size_t>(cause)], count, __ATOMIC_RELAXED);
}

// One record of `mask` begun at `stamp` on this thread is lost. Any thread, no lock needed; exact
// under State::lock.
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

// Which records are a session's, by begin, category and thread-local segment.
struct RecordFilter {
  uint64_t session_id;
  uint64_t t0, t1;  // ticks
  uint32_t mask;
  bool local;
};

// State::lock held.
inline RecordFilter filter_of(const SessionSlot& session) noexcept {
  return {session.id, session.t0, session.t1, session.mask, session.local != 0};
}

struct RecordCount {
  uint64_t events;
  const Slot* stopped_at;  // the first slot that is reserved and not written yet, or `last`
};

// How many events of a chunk are the session's, up to `last` or a slot that is not written yet: its
// size is not known. The chunk may not be recycled meanwhile.
inline RecordCount count_records(const Chunk* chunk, const Slot* last,
                                 const RecordFilter& session) noexcept {
  uint64_t count = 0;
  SegmentWalk segments(session.session_id, session.local);
  for (const Slot* slot = chunk_slots(chunk); slot < last;) {
    const uint64_t begin = load_acquire(&slot->begin);
    if (begin < chunk->open_ticks) return {count, slot};
    const uintptr_t word = load_relaxed(&slot->site);
    const RecordTag tag = tag_of(word);
    const Site* site = site_of(word);
    // Ends that were appended are parts of an event, not events.
    const bool event =
        (tag == RecordTag::slot || tag == RecordTag::detailed) && site->kind != SiteKind::segment;
    if (event && segments.inside && (site->mask & session.mask) != 0 && begin >= session.t0 &&
        begin < session.t1)
      ++count;
    if (site->kind == SiteKind::segment) segments.see(load_relaxed(&slot->end));
    slot += record_units(slot);
  }
  return {count, last};
}

// Whether a range of the chunk is still open. 2.5 us for a full chunk. Slow paths only; State::lock
// held.
inline bool has_open_slots(const Chunk* chunk) noexcept {
  if (chunk->place == ChunkPlace::full && load_relaxed(&chunk->quiet_gen) == chunk->gen)
    return false;
  const Slot* last = reinterpret_cast<const Slot*>(
      reinterpret_cast<const char*>(chunk_slots(chunk)) + chunk->used_bytes);
  for (const Slot* slot = chunk_slots(chunk); slot < last;) {
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

FASTPROF_NAMESPACE_END
