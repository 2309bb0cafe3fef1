// SPDX-License-Identifier: Apache-2.0
// Membership records: which of a thread's records belong to a thread-local session.
#pragma once

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/state/make_site.hpp"
#include "fastprof/recorder/state/slot.hpp"
#include "fastprof/recorder/state/state.hpp"
#include "fastprof/recorder/state/ticks.hpp"

FASTPROF_NAMESPACE_BEGIN

// Site of membership records: "from here on, this thread is in session X", or "is not". A thread
// repeats the former for each of its sessions at the start of every chunk. So each chunk by itself
// determines which sessions its records belong to, whatever happens to other chunks.
inline constexpr Site membership_site =
    in_category(make_site(SiteKind::session_membership, category::all, RecordScope::USER_SCOPE,
                          "session membership", "", "", 0),
                "overhead");

// The second word of a membership record.
constexpr uint64_t membership_word(uint64_t session_id, bool enters) noexcept {
  return session_id << 1 | (enters ? 1 : 0);
}

// A thread's session membership, in the form that is propagated to other threads.
struct LocalSessions {
  uint64_t bits = 0;  // session slots
  // A bit counts only if its session's id is at most this: slots are reused.
  uint64_t newest_id = 0;
};

// The sessions in `local` that still run, as a bit per session slot. Any thread.
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

// Whether the calling thread belongs to the session in slot `index`. `track`: its track or null.
inline bool belongs(const State* s, const Track* track, unsigned index) noexcept {
  return track != nullptr && (track->local_sessions >> index & 1) != 0 &&
         load_relaxed(&s->sessions[index].id) <= track->local_newest_id;
}

// Writes a membership record into a reserved slot.
inline void fill_membership(State* s, Slot* slot, uint64_t session_id, bool enters) noexcept {
  store_relaxed(&slot->end, membership_word(session_id, enters));
  store_relaxed(&slot->site, reinterpret_cast<uintptr_t>(&membership_site));
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  store_release(&slot->begin, ticks(s));
}

// Whether records belong to a session, for a walk over a chunk's records from the first on. All
// records belong to a process-wide session. apply(): at each membership record, with its word.
struct MembershipWalk {
  uint64_t session_id;
  bool inside;

  MembershipWalk(uint64_t id, bool local) noexcept : session_id(id), inside(!local) {}
  void apply(uint64_t word) noexcept {
    if (word >> 1 == session_id) inside = (word & 1) != 0;
  }
};

FASTPROF_NAMESPACE_END
