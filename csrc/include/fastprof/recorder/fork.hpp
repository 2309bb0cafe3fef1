// SPDX-License-Identifier: Apache-2.0
// fork(): the child starts with an empty recorder. Its slabs read as zeroes (MADV_WIPEONFORK), its
// sessions are gone.
#pragma once

#include <pthread.h>
#include <unistd.h>

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/calibration.hpp"
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

// Everything about other threads and about the parent's memory is dropped; the slabs stay mapped
// (an open range's end store lands in zeroes, fails its check and is off), but no chunk of them is
// used again.
inline void fork_child() noexcept {
  State* s = state();
  s->pid = static_cast<uint64_t>(::getpid());
  ++s->fork_count;
  for (SessionSlot& slot : s->sessions) slot = SessionSlot{};
  s->session_bits = s->keep_bits = s->local_bits = 0;
  s->slabs = s->carving = s->ready = nullptr;
  s->trimmed = nullptr;
  s->free_chunks = nullptr;
  s->chunk_count = s->free_count = s->ready_count = s->max_chunks = 0;
  s->prefault_running = 0;
  ++s->session_epoch;
  ThreadBlock* block = thread_block();
  Track* own = block->track;
  ThreadPrimitives* primitives = own != nullptr ? own->primitives : nullptr;
  s->tracks = nullptr;
  s->free_tracks = nullptr;
  block->cursor = block->limit = 0;
  block->mask = 0;
  block->flags &= ~thread_flag::busy;
  block->track = nullptr;
  if (primitives != nullptr && s->functions != nullptr) {
    if (Track* track = register_track(s, block)) track->primitives = primitives;
  }
  publish_mask(s);
  // This thread took them in fork_prepare, so it may give them back; who waited for them is not in
  // this process.
  pthread_mutex_unlock(&s->lock);
  pthread_mutex_unlock(&s->drain_lock);
}

FASTPROF_NAMESPACE_END
