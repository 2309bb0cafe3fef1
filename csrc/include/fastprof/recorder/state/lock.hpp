// SPDX-License-Identifier: Apache-2.0
// RAII holders of the recorder's two locks. Lock order: State::drain_lock before State::lock.
#pragma once

#include <pthread.h>

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/state/own_state.hpp"

FASTPROF_NAMESPACE_BEGIN

// Marks the calling thread as inside the recorder: a range begun meanwhile (by an annotated malloc
// or a signal handler) is counted as reentrant and does not take a lock that this thread holds.
// Nests.
class BusyScope {
 public:
  // The flag is set before the limit is read: a signal handler between the two may record but
  // cannot take a new chunk, so the saved limit still belongs to the cursor's chunk.
  explicit BusyScope(ThreadBlock* block) noexcept
      : block_(block), was_(block->flags & thread_flag::busy) {
    store_relaxed(&block_->flags, block_->flags | thread_flag::busy);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    limit_ = load_relaxed(&block_->limit);
    store_relaxed(&block_->limit,
                  uintptr_t{0});  // sends every record to the slow path, which checks the flag
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
  }
  ~BusyScope() {
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    store_relaxed(&block_->limit, limit_);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    store_relaxed(&block_->flags, (block_->flags & ~thread_flag::busy) | was_);
  }
  BusyScope(const BusyScope&) = delete;
  BusyScope& operator=(const BusyScope&) = delete;

  // Sets the limit that the destructor restores: the end of a new chunk.
  void set_limit(uintptr_t limit) noexcept { limit_ = limit; }

 private:
  ThreadBlock* block_;
  uint32_t was_;
  uintptr_t limit_;
};

// Holds a mutex. Unlike std::lock_guard, it works on pthread_mutex_t and needs no <mutex>.
class ScopedLock {
 public:
  explicit ScopedLock(pthread_mutex_t& mutex) noexcept : mutex_(&mutex) {
    pthread_mutex_lock(mutex_);
  }
  ~ScopedLock() { pthread_mutex_unlock(mutex_); }
  ScopedLock(const ScopedLock&) = delete;
  ScopedLock& operator=(const ScopedLock&) = delete;

 private:
  pthread_mutex_t* mutex_;
};

// Holds State::lock. For threads that may be recorded themselves.
class StateLock {
 public:
  explicit StateLock(State* s) noexcept : busy_(thread_block()), hold_(s->lock) {}

 private:
  BusyScope busy_;
  ScopedLock hold_;
};

FASTPROF_NAMESPACE_END
