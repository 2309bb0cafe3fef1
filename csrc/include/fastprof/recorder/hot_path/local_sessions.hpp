// SPDX-License-Identifier: Apache-2.0
// Membership of threads in thread-local sessions, and its propagation to threads that receive work.
#pragma once

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/hot_path/range.hpp"
#include "fastprof/recorder/state/session_membership.hpp"

FASTPROF_NAMESPACE_BEGIN

// Sets the calling thread's sessions and computes its mask from them.
inline void set_local_sessions(State* s, ThreadBlock* block, uint64_t bits,
                               uint64_t newest_id) noexcept {
  block->track->local_sessions = bits;
  block->track->local_newest_id = newest_id;
  uint32_t mask = 0;
  for (uint64_t rest = bits; rest != 0; rest &= rest - 1)
    mask |= load_relaxed(&s->sessions[__builtin_ctzll(rest)].mask);
  block->mask = mask;
}

// The calling thread's live sessions: those that have stopped are removed.
inline LocalSessions own_local_sessions(State* s, const Track* track) noexcept {
  // Read before the slots: a session that takes one of them later has a larger id.
  const uint64_t newest_id = load_acquire(&s->next_session_id);
  return {live_local_sessions(s, {track->local_sessions, track->local_newest_id}), newest_id};
}

// The calling thread's sessions, to be propagated. Cheap if no thread-local session exists.
inline LocalSessions current_local_sessions() noexcept {
  State* s = state();
  const uint32_t mask = load_relaxed(&s->mask);
  if ((mask & (mask_bit::local | mask_bit::dynamic)) == 0) return {};
  const Track* track = thread_block()->track;
  if (track == nullptr || track->local_sessions == 0) return {};
  return own_local_sessions(s, track);
}

// Records that the calling thread enters or leaves the session. If there is no room, nothing is
// lost: the thread's chunk ends here, and its next chunk repeats the current membership.
inline void write_membership(State* s, ThreadBlock* block, uint64_t session_id,
                             bool enters) noexcept {
  if (Slot* slot = reserve(s, block, 1, 0)) fill_membership(s, slot, session_id, enters);
}

// Adds the calling thread to the session in slot `index`.
inline void join_session(State* s, ThreadBlock* block, int index) noexcept {
  const LocalSessions own = own_local_sessions(s, block->track);
  set_local_sessions(s, block, own.bits | uint64_t{1} << index, own.newest_id);
  write_membership(s, block, load_relaxed(&s->sessions[index].id), true);
}

// The sessions that enter_sessions added and leave_sessions removes.
struct SessionStay {
  LocalSessions added;
};

// Adds the calling thread to the given sessions. Pair with leave_sessions on the same thread.
inline SessionStay enter_sessions(const LocalSessions& local) noexcept {
  if (local.bits == 0) return {};
  State* s = state();
  ThreadBlock* block = thread_block();
  Track* track = block->track != nullptr ? block->track : s->functions->track(s, block);
  if (track == nullptr) return {};
  const LocalSessions own = own_local_sessions(s, track);
  const LocalSessions added{live_local_sessions(s, local) & ~own.bits, local.newest_id};
  if (added.bits == 0) return {};
  set_local_sessions(s, block, own.bits | added.bits, own.newest_id);
  for (uint64_t rest = added.bits; rest != 0; rest &= rest - 1)
    write_membership(s, block, load_relaxed(&s->sessions[__builtin_ctzll(rest)].id), true);
  return {added};
}

// Removes the calling thread from the sessions that enter_sessions() added.
inline void leave_sessions(const SessionStay& stay) noexcept {
  if (stay.added.bits == 0) return;
  State* s = state();
  ThreadBlock* block = thread_block();
  if (block->track == nullptr) return;
  const uint64_t left = live_local_sessions(s, stay.added);
  // Before the records are written: a chunk that they open must not repeat these sessions.
  const LocalSessions own = own_local_sessions(s, block->track);
  set_local_sessions(s, block, own.bits & ~left, own.newest_id);
  for (uint64_t rest = left; rest != 0; rest &= rest - 1)
    write_membership(s, block, load_relaxed(&s->sessions[__builtin_ctzll(rest)].id), false);
}

FASTPROF_NAMESPACE_END
