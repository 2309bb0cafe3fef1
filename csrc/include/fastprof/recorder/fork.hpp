// SPDX-License-Identifier: Apache-2.0
// fork(): the child starts with an empty recorder. Its slabs read as zeroes (MADV_WIPEONFORK), its
// sessions are gone or, with SessionOptions::follow_fork, begin again.
#pragma once

#include <pthread.h>
#include <unistd.h>

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/calibration.hpp"
#include "fastprof/recorder/local_sessions.hpp"
#include "fastprof/recorder/masks.hpp"
#include "fastprof/recorder/track.hpp"

FASTPROF_NAMESPACE_BEGIN

// What the forking thread's block said before fork_prepare made it busy (only one thread forks at a
// time: it holds State::lock). Without the flag a signal handler of that thread could wait for the
// lock its own thread holds.
struct ForkingThread {
  uint32_t was_busy;
  uintptr_t limit;
};
inline ForkingThread forking_thread{0, 0};

inline void fork_prepare() noexcept {
  State* s = state();
  ThreadBlock* block = thread_block();
  pthread_mutex_lock(&s->drain_lock);
  const uint32_t was_busy = block->flags & thread_flag::busy;
  block->flags |= thread_flag::busy;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  pthread_mutex_lock(&s->lock);
  forking_thread = {was_busy, block->limit};
  block->limit = 0;
}

inline void fork_parent() noexcept {
  State* s = state();
  ThreadBlock* block = thread_block();
  block->limit = forking_thread.limit;
  const uint32_t was_busy = forking_thread.was_busy;
  pthread_mutex_unlock(&s->lock);
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  block->flags = (block->flags & ~thread_flag::busy) | was_busy;
  pthread_mutex_unlock(&s->drain_lock);
}

// Empties the session slots for the child. What follows the fork starts anew at this instant, under
// the same id; the rest is gone. Returns the bits of what follows.
inline uint64_t follow_sessions(State* s) noexcept {
  const uint64_t running = s->session_bits;
  s->session_bits = s->keep_bits = s->local_bits = 0;
  s->max_chunks = 0;
  s->detail_users = 0;
  s->input_users = 0;
  for (unsigned i = 0; i < kMaxSessions; ++i) {
    SessionSlot& slot = s->sessions[i];
    const uint64_t bit = uint64_t{1} << i;
    if ((running & bit) == 0 || slot.follows_fork == 0) {
      slot = SessionSlot{};
      continue;
    }
    for (uint64_t& count : slot.dropped) store_relaxed(&count, uint64_t{0});
    slot.pid = static_cast<uint32_t>(s->pid);
    slot.pinned_chunks = 0;
    slot.t0 = ordered_ticks(s);
    enlist_session(s, i);
  }
  return s->session_bits;
}

// Everything about other threads and about the parent's memory is dropped; the slabs stay mapped
// (an open range's end store lands in zeroes, fails its check and is off), but no chunk of them is
// used again.
inline void fork_child() noexcept {
  State* s = state();
  s->pid = static_cast<uint64_t>(::getpid());
  ++s->fork_count;
  const uint64_t followed = follow_sessions(s);
  s->slabs = s->carving = s->ready = nullptr;
  s->blank_slabs = nullptr;
  s->free_chunks = nullptr;
  s->chunk_count = s->free_count = s->ready_count = 0;
  s->prefault_running = 0;
  ++s->session_epoch;
  ThreadBlock* block = thread_block();
  Track* own = block->track;
  ThreadPrimitives* primitives = own != nullptr ? own->primitives : nullptr;
  const LocalSessions local =
      own != nullptr ? LocalSessions{own->local_sessions & followed, own->local_newest_id}
                     : LocalSessions{};
  s->tracks = nullptr;
  s->free_tracks = nullptr;
  block->cursor = block->limit = 0;
  block->mask = 0;
  block->flags &= ~thread_flag::busy;
  block->track = nullptr;
  if ((primitives != nullptr || local.bits != 0) && s->functions != nullptr) {
    if (Track* track = register_track(s, block)) {
      track->primitives = primitives;
      // The first chunk begins with the membership (repeat_segments).
      set_local_sessions(s, block, local.bits, local.newest_id);
    }
  }
  publish_mask(s);
  // This thread took them in fork_prepare, so it may give them back; who waited for them is not in
  // this process.
  pthread_mutex_unlock(&s->lock);
  pthread_mutex_unlock(&s->drain_lock);
}

FASTPROF_NAMESPACE_END
