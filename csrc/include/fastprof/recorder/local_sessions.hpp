// SPDX-License-Identifier: Apache-2.0
// Which thread-local sessions a thread belongs to, and carrying that to the threads it hands work to.
#pragma once

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/range.hpp"

FASTPROF_NAMESPACE_BEGIN

// A segment record says: from begin to end this thread belonged to session word 0 of its unit.
inline constexpr const char* segment_arg_names[1] = {"session"};
inline constexpr ArgType segment_arg_types[1] = {ArgType::uint64};
inline constexpr Site segment_site = {category::all, SiteKind::segment, RecordScope::USER_SCOPE, 1, 1, "session segment", "overhead",
                                      "", "", 0, 0, segment_arg_names, segment_arg_types, -1, -1, 0};

// A thread's membership as another thread can take it over.
struct LocalSessions {
  uint64_t bits = 0;       // session slots
  uint64_t newest_id = 0;  // a slot counts only while its session is not younger than this
};

// The sessions of `local` that still run. Any thread.
inline uint64_t live_local_sessions(State* s, const LocalSessions& local) noexcept {
  uint64_t live = 0;
  for (uint64_t rest = local.bits; rest != 0; rest &= rest - 1) {
    const int i = __builtin_ctzll(rest);
    if (load_acquire(&s->sessions[i].live) != 0 && s->sessions[i].id <= local.newest_id) live |= uint64_t{1} << i;
  }
  return live;
}

// Sets the calling thread's membership and the mask that follows from it.
inline void set_local_sessions(State* s, ThreadBlock* block, uint64_t bits) noexcept {
  block->track->local_sessions = bits;
  uint32_t mask = 0;
  for (uint64_t rest = bits; rest != 0; rest &= rest - 1) mask |= s->sessions[__builtin_ctzll(rest)].mask;
  block->mask = mask;
}

// What the calling thread would hand on. Cheap when no thread-local session exists.
inline LocalSessions current_local_sessions() noexcept {
  State* s = state();
  const uint32_t mask = load_relaxed(&s->mask);
  if ((mask & (mask_bit::local | mask_bit::dynamic)) == 0) return {};
  const Track* track = thread_block()->track;
  if (track == nullptr || track->local_sessions == 0) return {};
  return {track->local_sessions, load_relaxed(&s->next_session_id)};
}

// Writes the begin of a segment; slot null when there was no room (the records of that segment are then not the session's).
inline RangeHandle begin_segment(State* s, ThreadBlock* block, uint64_t session_id) noexcept {
  Slot* slot = reserve(s, block, 2, category::all);
  if (slot == nullptr) return {};
  const uint64_t words[3] = {session_id, 0, 0};
  write_args(slot, words, 3);
  if (s->slow_clock != 0) {
    store_relaxed(&slot->end, uint64_t{0});
    store_relaxed(&slot->site, reinterpret_cast<uintptr_t>(&segment_site));
    const uint64_t begin = slow_ticks(s);
    store_release(&slot->begin, begin);
    return {slot, ~begin, &segment_site, block->track->id};
  }
  return {slot, stamp_slot(slot, 0, reinterpret_cast<uintptr_t>(&segment_site)), &segment_site, block->track->id};
}

// A stay in other sessions: what enter_sessions returns and leave_sessions takes.
struct SessionStay {
  static constexpr int kMaxSegments = 8;
  LocalSessions before;
  int count = 0;
  bool active = false;
  RangeHandle segments[kMaxSegments];
};

// From here on the calling thread also belongs to the given sessions. Pair with leave_sessions on the same thread, last
// first.
inline SessionStay enter_sessions(const LocalSessions& local) noexcept {
  SessionStay stay;
  if (local.bits == 0) return stay;
  State* s = state();
  ThreadBlock* block = thread_block();
  Track* track = block->track != nullptr ? block->track : s->functions->track(s, block);
  if (track == nullptr) return stay;
  uint64_t added = live_local_sessions(s, local) & ~track->local_sessions;
  if (added == 0) return stay;
  stay.before = {track->local_sessions, load_relaxed(&s->next_session_id)};
  stay.active = true;
  set_local_sessions(s, block, track->local_sessions | added);
  for (; added != 0 && stay.count < SessionStay::kMaxSegments; added &= added - 1)
    stay.segments[stay.count++] = begin_segment(s, block, s->sessions[__builtin_ctzll(added)].id);
  return stay;
}

inline void leave_sessions(const SessionStay& stay) noexcept {
  if (!stay.active) return;
  State* s = state();
  ThreadBlock* block = thread_block();
  for (int i = stay.count; i-- > 0;) end_range(stay.segments[i]);
  if (block->track != nullptr) set_local_sessions(s, block, live_local_sessions(s, stay.before));
}

FASTPROF_NAMESPACE_END
