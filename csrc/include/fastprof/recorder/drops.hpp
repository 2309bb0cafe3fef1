// SPDX-License-Identifier: Apache-2.0
// Counting what was produced and not recorded, for every session that would have wanted it.
#pragma once

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/state.hpp"

FASTPROF_NAMESPACE_BEGIN

inline void add_dropped(SessionSlot& slot, DropCause cause, uint64_t count) noexcept {
  __atomic_fetch_add(&slot.dropped[static_cast<size_t>(cause)], count, __ATOMIC_RELAXED);
}

// One record of `mask` begun at `stamp` on this thread is lost. Any thread, no lock needed; exact under State::lock.
inline void count_dropped(State* s, const Track* track, uint32_t mask, uint64_t stamp, DropCause cause) noexcept {
  for (unsigned i = 0; i < kMaxSessions; ++i) {
    SessionSlot& slot = s->sessions[i];
    if (load_acquire(&slot.live) == 0 || (slot.mask & mask) == 0) continue;
    if (stamp < slot.t0 || stamp >= load_relaxed(&slot.t1)) continue;
    if (slot.local != 0 && (track == nullptr || (track->local_sessions >> i & 1) == 0)) continue;
    add_dropped(slot, cause, 1);
  }
}

// How many records of [first, last) begin in [t0, t1) and match `mask`. State::lock or drain_lock held.
inline uint64_t count_records(const Chunk* chunk, const Slot* last, uint32_t mask, uint64_t t0, uint64_t t1) noexcept {
  uint64_t count = 0;
  for (const Slot* slot = chunk_slots(chunk); slot < last;) {
    const uint64_t begin = load_acquire(&slot->begin);
    if (begin < chunk->open_ticks) break;
    const uintptr_t word = load_relaxed(&slot->site);
    const RecordTag tag = tag_of(word);
    const Site* site = site_of(word);
    // Ends that were appended are parts of an event, not events.
    const bool event = (tag == RecordTag::slot || tag == RecordTag::detailed) && site->kind != SiteKind::segment;
    if (event && (site->mask & mask) != 0 && begin >= t0 && begin < t1) ++count;
    slot += record_units(slot);
  }
  return count;
}

// Whether a range of the chunk is still open. 2.5 us for a full chunk. Slow paths only; State::lock held.
inline bool has_open_slots(const Chunk* chunk) noexcept {
  const Slot* last = reinterpret_cast<const Slot*>(reinterpret_cast<const char*>(chunk_slots(chunk)) + chunk->used_bytes);
  for (const Slot* slot = chunk_slots(chunk); slot < last;) {
    const uint64_t begin = load_acquire(&slot->begin);
    if (begin < chunk->open_ticks) return true;  // reserved, not written yet
    const uintptr_t word = load_relaxed(&slot->site);
    const RecordTag tag = tag_of(word);
    if ((tag == RecordTag::slot || tag == RecordTag::detailed) && site_of(word)->kind == SiteKind::range) {
      const uint64_t end = load_acquire(&slot->end);
      if (end == 0 || end < begin) return true;
    }
    // A segment is written by its own thread at its exit, through a validated store: it pins like a range.
    if (tag == RecordTag::slot && site_of(word)->kind == SiteKind::segment && load_acquire(&slot->end) == 0) return true;
    slot += record_units(slot);
  }
  return false;
}

FASTPROF_NAMESPACE_END
