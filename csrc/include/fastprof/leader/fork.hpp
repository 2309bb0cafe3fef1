// SPDX-License-Identifier: Apache-2.0
// Fork handlers: the child starts with an empty recorder. Its slabs read as zeroes; its sessions
// are gone or, with SessionOptions::follow_fork, restart.
#pragma once

#include <pthread.h>
#include <unistd.h>

#include "fastprof/base/config.hpp"
#include "fastprof/platform/memory.hpp"
#include "fastprof/recorder/hot_path/local_sessions.hpp"
#include "fastprof/recorder/process/masks.hpp"
#include "fastprof/recorder/store/calibration.hpp"
#include "fastprof/recorder/store/open_backing_file.hpp"
#include "fastprof/recorder/store/track.hpp"

FASTPROF_NAMESPACE_BEGIN

// State of the forking thread's block before fork_prepare marked it busy. One variable suffices:
// that thread holds State::lock. Without the busy flag, a signal handler could wait for the lock
// that its own thread holds.
struct ForkingThread {
  uint32_t was_busy;
  uintptr_t limit;
};
inline ForkingThread forking_thread{0, 0};

// Before fork: takes both locks, so that the child inherits consistent data.
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

// In the parent, after fork: releases the locks.
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

// Resets the session slots in the child. Sessions with follow_fork restart now under the same id;
// the others are freed. Returns the restarted sessions, a bit per slot.
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
    store_relaxed(&slot.dropped_in_file, static_cast<uint64_t*>(nullptr));
    slot.pid = static_cast<uint32_t>(s->pid);
    slot.pinned_chunks = 0;
    slot.t0 = ordered_ticks(s);
    enlist_session(s, i);
  }
  return s->session_bits;
}

// Zeroes the slabs where the system cannot wipe memory in children: the end of a range that was
// open must find zeroes. Call it before the lists of slabs are changed.
inline void wipe_slabs_in_child(State* s) noexcept {
  if (platform::kWipesInChildren) return;
  for (Slab* slab = s->slabs; slab != nullptr;) {
    Slab* next = slab->next;
    platform::discard_pages(slab, kSlabBytes);
    slab = next;
  }
}

// Drops the child's references to other threads and to the parent's memory. Slabs stay mapped, but
// their chunks are not used again: the end of a range that was open finds zeroes in its slot, fails
// the validation and is appended or discarded.
inline void fork_child() noexcept {
  State* s = state();
  s->pid = static_cast<uint64_t>(::getpid());
  ++s->fork_count;
  const uint64_t followed = follow_sessions(s);
  wipe_slabs_in_child(s);
  leave_file_in_child(s);
  s->slabs = s->carving = s->ready = nullptr;
  s->blank_slabs = nullptr;
  s->free_chunks = s->shared_chunks = nullptr;
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
      // The first chunk will begin with membership records (repeat_memberships).
      set_local_sessions(s, block, local.bits, local.newest_id);
    }
  }
  publish_mask(s);
  // This thread took the locks in fork_prepare, so it may release them. Their waiters do not exist
  // in this process.
  pthread_mutex_unlock(&s->lock);
  pthread_mutex_unlock(&s->drain_lock);
}

FASTPROF_NAMESPACE_END
