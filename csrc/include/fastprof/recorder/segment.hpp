// SPDX-License-Identifier: Apache-2.0
// Segments: which stretch of a thread's records belongs to a thread-local session.
#pragma once

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/slot.hpp"
#include "fastprof/recorder/state.hpp"
#include "fastprof/recorder/ticks.hpp"

FASTPROF_NAMESPACE_BEGIN

// Two kinds of record, both written once: "from here on in session X" and "no longer in it". A
// thread repeats the first for each of its sessions at the start of every chunk. So a chunk says by
// itself which of its records are whose: what was recycled or had no room elsewhere does not
// matter, and nothing has to be written later on another thread.
inline constexpr Site segment_site = {category::all,
                                      SiteKind::segment,
                                      RecordScope::USER_SCOPE,
                                      0,
                                      0,
                                      "session segment",
                                      "overhead",
                                      "",
                                      "",
                                      0,
                                      0,
                                      nullptr,
                                      nullptr,
                                      -1,
                                      -1,
                                      0};

constexpr uint64_t segment_word(uint64_t session_id, bool enters) noexcept {
  return session_id << 1 | (enters ? 1 : 0);
}

// A thread's membership as another thread can take it over.
struct LocalSessions {
  uint64_t bits = 0;  // session slots
  uint64_t newest_id =
      0;  // a slot counts only while its session is not younger than this: slots are reused
};

// The sessions of `local` that still run. Any thread.
inline uint64_t live_local_sessions(const State* s, const LocalSessions& local) noexcept {
  uint64_t live = 0;
  for (uint64_t rest = local.bits; rest != 0; rest &= rest - 1) {
    const int i = __builtin_ctzll(rest);
    if (load_acquire(&s->sessions[i].live) != 0 &&
        load_relaxed(&s->sessions[i].id) <= local.newest_id)
      live |= uint64_t{1} << i;
  }
  return live;
}

// Whether the calling thread, whose track this is (or null), belongs to the session in slot
// `index`.
inline bool belongs(const State* s, const Track* track, unsigned index) noexcept {
  return track != nullptr && (track->local_sessions >> index & 1) != 0 &&
         load_relaxed(&s->sessions[index].id) <= track->local_newest_id;
}

// Fills a reserved slot.
inline void fill_segment(State* s, Slot* slot, uint64_t session_id, bool enters) noexcept {
  store_relaxed(&slot->end, segment_word(session_id, enters));
  store_relaxed(&slot->site, reinterpret_cast<uintptr_t>(&segment_site));
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  store_release(&slot->begin, ticks(s));
}

// Walks a chunk's records from its first: whether they are a session's. A process-wide one owns
// all.
struct SegmentWalk {
  uint64_t session_id;
  bool inside;

  SegmentWalk(uint64_t id, bool local) noexcept : session_id(id), inside(!local) {}
  void see(uint64_t word) noexcept {
    if (word >> 1 == session_id) inside = (word & 1) != 0;
  }
};

FASTPROF_NAMESPACE_END
