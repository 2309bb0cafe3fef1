// SPDX-License-Identifier: Apache-2.0
// Which thread-local sessions a thread belongs to, and carrying that to the threads it hands work
// to.
#pragma once

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/range.hpp"
#include "fastprof/recorder/segment.hpp"

FASTPROF_NAMESPACE_BEGIN

// Sets the calling thread's membership and the mask that follows from it.
inline void set_local_sessions(State* s, ThreadBlock* block, uint64_t bits,
                               uint64_t newest_id) noexcept {
  block->track->local_sessions = bits;
  block->track->local_newest_id = newest_id;
  uint32_t mask = 0;
  for (uint64_t rest = bits; rest != 0; rest &= rest - 1)
    mask |= load_relaxed(&s->sessions[__builtin_ctzll(rest)].mask);
  block->mask = mask;
}

// The live sessions that the calling thread belongs to; what it has left by their stop is
// forgotten.
inline LocalSessions own_local_sessions(State* s, const Track* track) noexcept {
  // Before the look at the slots: what takes one of them afterwards is younger than this.
  const uint64_t newest_id = load_acquire(&s->next_session_id);
  return {live_local_sessions(s, {track->local_sessions, track->local_newest_id}), newest_id};
}

// What the calling thread would hand on. Cheap when no thread-local session exists.
inline LocalSessions current_local_sessions() noexcept {
  State* s = state();
  const uint32_t mask = load_relaxed(&s->mask);
  if ((mask & (mask_bit::local | mask_bit::dynamic)) == 0) return {};
  const Track* track = thread_block()->track;
  if (track == nullptr || track->local_sessions == 0) return {};
  return own_local_sessions(s, track);
}

// Says that the records of the calling thread from here on are (not) the session's. No room: then
// the chunk ends here, and the next one begins with what holds.
inline void write_segment(State* s, ThreadBlock* block, uint64_t session_id, bool enters) noexcept {
  if (Slot* slot = reserve(s, block, 1, 0)) fill_segment(s, slot, session_id, enters);
}

// The calling thread joins the session in slot `index`, or leaves it.
inline void join_session(State* s, ThreadBlock* block, int index) noexcept {
  const LocalSessions own = own_local_sessions(s, block->track);
  set_local_sessions(s, block, own.bits | uint64_t{1} << index, own.newest_id);
  write_segment(s, block, load_relaxed(&s->sessions[index].id), true);
}

// A stay in other sessions: what enter_sessions returns and leave_sessions takes.
struct SessionStay {
  LocalSessions added;
};

// From here on the calling thread also belongs to the given sessions. Pair with leave_sessions on
// the same thread.
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
    write_segment(s, block, load_relaxed(&s->sessions[__builtin_ctzll(rest)].id), true);
  return {added};
}

inline void leave_sessions(const SessionStay& stay) noexcept {
  if (stay.added.bits == 0) return;
  State* s = state();
  ThreadBlock* block = thread_block();
  if (block->track == nullptr) return;
  const uint64_t left = live_local_sessions(s, stay.added);
  // Left before it is written down: should that take a new chunk, the chunk begins without them.
  const LocalSessions own = own_local_sessions(s, block->track);
  set_local_sessions(s, block, own.bits & ~left, own.newest_id);
  for (uint64_t rest = left; rest != 0; rest &= rest - 1)
    write_segment(s, block, load_relaxed(&s->sessions[__builtin_ctzll(rest)].id), false);
}

FASTPROF_NAMESPACE_END
